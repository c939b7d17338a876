//! The official SDK on one side, this project on the other. One binary, because every link of the
//! SDK's tree costs.

mod engine;
mod numbers;
mod sdk;
