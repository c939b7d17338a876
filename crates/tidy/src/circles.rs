//! Modules of one crate that import each other in a circle.
//!
//! A module is a file or a folder. For each folder the rule looks at its children: child `a`
//! depends on child `b` when a file in `a` names something in `b`. These arrows have no circle. A
//! module may use its own children and a child what its parents define: those two are one subject.
//!
//! What it reads: `use` declarations and paths that begin with `crate`, `super` or `self`. Files
//! with tests only (`tests`, `loom_tests`) may look at anything.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::report::{Finding, Report};

/// A module by its path within the crate; the crate root is empty.
type Module = Vec<String>;

/// The files of one crate: path below the workspace, and text.
pub(crate) fn circles(package: &str, files: &[(String, String)]) -> Vec<Finding> {
    let source = format!("crates/{package}/src/");
    let modules: BTreeMap<Module, &(String, String)> = files
        .iter()
        .filter_map(|file| Some((module_of(file.0.strip_prefix(&source)?)?, file)))
        .collect();
    let mut graphs: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (module, (_, text)) in &modules {
        for target in imports(module, text) {
            let Some(target) = longest_known(&modules, &target) else {
                continue;
            };
            let shared = module.iter().zip(&target).take_while(|(a, b)| a == b);
            let shared = shared.count();
            if let (Some(from), Some(to)) = (module.get(shared), target.get(shared)) {
                let graph = graphs.entry(module[..shared].to_vec()).or_default();
                graph.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    let mut findings = Vec::new();
    for (folder, graph) in &graphs {
        let place = format!("{source}{}", folder.join("/"));
        let mut report = Report::new(&place);
        for circle in circles_of(graph) {
            report.add(1, "import circle", circle.join(" -> "));
        }
        findings.append(&mut report.findings);
    }
    findings
}

/// The module of a file below `src/`; `None` for a file of tests.
fn module_of(path: &str) -> Option<Module> {
    let path = path.strip_suffix(".rs")?;
    let mut parts: Module = path.split('/').map(str::to_owned).collect();
    let is_test = |part: &String| matches!(part.as_str(), "tests" | "loom_tests");
    if parts.iter().any(is_test) {
        return None;
    }
    let is_root = |part: &String| matches!(part.as_str(), "mod" | "lib" | "main");
    if parts.last().is_some_and(is_root) {
        parts.pop();
    }
    Some(parts)
}

/// Everything a file names inside its crate, as paths from the root.
fn imports(module: &[String], text: &str) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    if let Ok(tokens) = text.parse::<TokenStream>() {
        walk(module, tokens, &mut found);
    }
    found
}

fn walk(module: &[String], tokens: TokenStream, found: &mut BTreeSet<Module>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut index = 0;
    while index < tokens.len() {
        match &tokens[index] {
            TokenTree::Ident(word) if *word == "crate" || *word == "super" || *word == "self" => {
                let mut base = module.to_vec();
                if *word == "crate" {
                    base.clear();
                } else if *word == "super" {
                    base.pop();
                }
                index = path(base, &tokens, index + 1, found);
            }
            TokenTree::Ident(word) if *word == "mod" => {
                // A module inside the file is a part of the file; one of tests may look anywhere.
                let is_tests = matches!(tokens.get(index + 1), Some(TokenTree::Ident(name))
                    if *name == "tests" || *name == "loom_tests");
                index += if is_tests { 3 } else { 1 };
            }
            TokenTree::Group(group) => {
                walk(module, group.stream(), found);
                index += 1;
            }
            _ => index += 1,
        }
    }
}

/// Follows `::name` and `::{..}` from `at` on; says where it ended.
fn path(
    mut base: Module,
    tokens: &[TokenTree],
    mut at: usize,
    found: &mut BTreeSet<Module>,
) -> usize {
    let is_colon = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    while is_colon(tokens.get(at)) && is_colon(tokens.get(at + 1)) {
        match tokens.get(at + 2) {
            Some(TokenTree::Ident(name)) if *name == "super" => {
                base.pop();
            }
            Some(TokenTree::Ident(name)) => base.push(name.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for branch in inner.split(
                    |token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','),
                ) {
                    if let Some(TokenTree::Ident(name)) = branch.first() {
                        let mut base = base.clone();
                        if *name != "self" {
                            base.push(name.to_string());
                        }
                        path(base, branch, 1, found);
                    }
                }
                return at + 3;
            }
            _ => break,
        }
        at += 3;
    }
    found.insert(base);
    at
}

/// The module that a path leads into: its longest beginning that is one.
fn longest_known<T>(modules: &BTreeMap<Module, T>, target: &[String]) -> Option<Module> {
    (1..=target.len())
        .rev()
        .map(|len| target[..len].to_vec())
        .find(|module| modules.contains_key(module))
}

/// The groups of nodes that can all reach each other, each in order of its names.
fn circles_of(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reachable = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            for next in graph.get(node).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> =
        graph.keys().map(|node| (node, reachable(node))).collect();
    let mut circles = BTreeSet::new();
    for (node, reached) in &reach {
        let circle: Vec<String> = reached
            .iter()
            .filter(|other| reach.get(other).is_some_and(|back| back.contains(*node)))
            .cloned()
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, String)> = files
            .iter()
            .map(|(path, text)| (format!("crates/x/src/{path}"), (*text).to_owned()))
            .collect();
        circles("x", &files)
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn modules_that_import_each_other_are_found_through_any_form() {
        for forms in [
            ("use crate::b::B;", "use crate::a::A;"),
            ("use super::b;", "use crate::{a::A, c};"),
            ("fn f() { crate::b::f() }", "fn f(x: super::a::A) {}"),
        ] {
            let files = [
                ("a.rs", forms.0),
                ("b.rs", forms.1),
                ("lib.rs", "mod a; mod b;"),
            ];
            assert_eq!(
                found(&files),
                ["crates/x/src/:1: import circle: a -> b"],
                "{forms:?}"
            );
        }
    }

    #[test]
    fn a_circle_through_a_folder_is_a_circle_of_the_folder() {
        let files = [
            ("a.rs", "mod deep;"),
            ("a/deep.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&files), ["crates/x/src/:1: import circle: a -> b"]);
    }

    #[test]
    fn a_module_and_its_children_are_one_subject() {
        let files = [
            ("a/mod.rs", "mod one; mod two; use one::One;"),
            ("a/one.rs", "use super::two::Two; use super::A;"),
            ("a/two.rs", "use super::A; use crate::c::C;"),
            ("c.rs", "struct C;"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn tests_may_look_at_anything() {
        let files = [
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }"),
            ("b/tests.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
