//! Keeps secrets out of messages: no text of this program quotes what stood on the command line
//! without passing here.

use std::ffi::OsString;

/// What stands in place of a hidden value.
const VALUE: &str = "<value>";
const URL: &str = "<URL>";

/// Whether `text`, found where no server URL belongs, may be one all the same, so that no message
/// may quote it.
pub(crate) fn looks_like_url(text: &str) -> bool {
    text.contains("://") || (text.contains('@') && text.contains(':'))
}

/// A name, path or address that was given, for a message about it.
pub(crate) fn shown(text: &str) -> &str {
    if looks_like_url(text) { URL } else { text }
}

/// Takes the values of `arguments` out of a message about them. Names of options stay, and numbers,
/// since a message about a range is of no use without.
///
/// A password or a token can stand in any value: in a misplaced URL, behind a misspelt option, in
/// the place of a file.
pub(crate) fn without_values(text: &str, arguments: impl Iterator<Item = OsString>) -> String {
    let mut text = text.to_owned();
    for argument in arguments {
        // As clap shows it.
        let argument = argument.to_string_lossy();
        let value = match argument.split_once('=') {
            Some((name, value)) if name.starts_with('-') => value,
            _ if argument.starts_with('-') => continue,
            _ => &argument,
        };
        if value.parse::<i128>().is_ok() {
            continue;
        }
        // Quoted, or behind an option's name in quotes.
        for before in ["'", "=", " "] {
            text = text.replace(&format!("{before}{value}'"), &format!("{before}{VALUE}'"));
        }
    }
    text
}

/// Takes everything that may be a server URL out of a text that may quote anything: the message of
/// a panic.
pub(crate) fn without_urls(text: &str, secrets: impl Iterator<Item = OsString>) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        let secret = secret.to_string_lossy();
        let url = match secret.split_once('=') {
            Some((name, url)) if !looks_like_url(name) => url,
            _ => &secret,
        };
        if looks_like_url(url) {
            text = text.replace(url, URL);
        }
    }
    // What the text itself has of the kind, credentials first: they end at the last @ of a word.
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        match (word.find("://"), word.rfind('@')) {
            (Some(scheme), Some(at)) if scheme < at => {
                format!("{}{URL}{}", &word[..scheme + 3], &word[at..])
            }
            _ => word.to_owned(),
        }
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn hidden(argument: &str) -> String {
        let text = format!(
            "unexpected argument '{argument}' found\n  tip: to pass '{argument}' as a value, use '-- {argument}'"
        );
        without_values(&text, ["dump".into(), argument.into()].into_iter())
    }

    #[test]
    fn values_are_taken_out_of_messages_about_arguments() {
        for argument in [
            "iggy://u:secret@h:1?nodelay=true",
            "u:secret@h:1",
            "secret",
            "se'cret",
            "a=secret",
        ] {
            assert_eq!(
                hidden(argument),
                hidden("x").replace("'x'", VALUE),
                "{argument}"
            );
            assert!(!hidden(argument).contains("cret"), "{argument}");
        }
        for argument in ["--sever=iggy://u:secret@h:1?a=b", "--password=secret"] {
            assert!(!hidden(argument).contains("cret"), "{argument}");
            assert!(hidden(argument).contains("'--"), "{argument}");
        }
    }

    #[test]
    fn names_and_numbers_stay() {
        for argument in ["--offset", "-x", "17", "-4", "--seconds=0"] {
            assert!(
                hidden(argument).contains(&format!("'{argument}'")),
                "{argument}"
            );
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_hidden_as_they_are_shown() {
        let argument = OsString::from_vec(b"secret\xff".to_vec());
        let text = format!("unexpected argument '{}' found", argument.to_string_lossy());
        let found = without_values(&text, [argument].into_iter());
        assert_eq!(found, "unexpected argument '<value>' found");
    }

    #[test]
    fn urls_are_taken_out_of_any_text() {
        let given = OsString::from("--server=iggy://u:sec ret@h:1");
        let text = "called with \"iggy://u:sec ret@h:1\" and iggy://TOKEN@h:2/x and a@b";
        let found = without_urls(text, [given].into_iter());
        assert_eq!(
            found,
            "called with \"<URL>\" and iggy://<URL>@h:2/x and a@b"
        );
    }
}
