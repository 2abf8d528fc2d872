//! Rows, and where they are.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A row of a table: an object.
pub type Object = Map<String, Value>;

/// Where the rows of a table or chart come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// In `rows` of the result.
    #[default]
    Rows,
    /// In a list in `figures` of the result, by its path: `edges.0.tried`.
    Figures(String),
    /// In `NAME.csv` of the run's directory.
    File(String),
    /// Here.
    Here(Vec<Object>),
}
