//! How a result lies in its file: a trial, a process, a row of a matrix is a line. A twentieth of the lines that one number per line would
//! make, and a difference between two results can be read.

use serde_json::{Map, Number, Value};

/// Letters of a line, its indentation included.
const LINE: usize = 500;

/// The text of a value.
pub(crate) fn text(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text.push('\n');
    text
}

fn write(value: &Value, indent: usize, text: &mut String) {
    let flat = value.to_string();
    let (open, close, members) = match value {
        Value::Array(items) if indent + flat.len() > LINE => {
            ('[', ']', items.iter().map(|item| (String::new(), item)).collect::<Vec<_>>())
        }
        Value::Object(fields) if indent + flat.len() > LINE => ('{', '}', named(fields)),
        _ => return text.push_str(&flat),
    };
    text.push(open);
    for (number, (name, member)) in members.into_iter().enumerate() {
        text.push_str(if number == 0 { "\n" } else { ",\n" });
        text.push_str(&" ".repeat(indent + 1));
        text.push_str(&name);
        write(member, indent + 1, text);
    }
    text.push('\n');
    text.push_str(&" ".repeat(indent));
    text.push(close);
}

fn named(fields: &Map<String, Value>) -> Vec<(String, &Value)> {
    fields.iter().map(|(name, member)| (format!("{}: ", Value::from(name.as_str())), member)).collect()
}

/// The value with its fractions rounded to six digits.
pub(crate) fn rounded(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(rounded).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, member)| (name, rounded(member))).collect())
        }
        Value::Number(number) if number.is_f64() => {
            let short = number.as_f64().and_then(|value| format!("{value:.5e}").parse().ok());
            Value::Number(short.and_then(Number::from_f64).unwrap_or(number))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_fits_a_line_stands_on_one() {
        let row: Vec<u64> = (100..200).collect();
        let value = json!({ "matrix": [row, row], "small": { "a": [1, 2] }, "word": "x\"y" });
        let text = text(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(value));
        assert_eq!(text.lines().count(), 8, "{text}");
        assert!(text.contains("\n \"small\": {\"a\":[1,2]},\n"), "{text}");
    }

    #[test]
    fn fractions_have_six_digits_and_counts_all() {
        let value = rounded(json!([0.123_456_789, 12_345_678.9, 12_345_678, 1e-300, [[-2.000_000_1]]]));
        assert_eq!(value, json!([0.123_457, 12_345_700.0, 12_345_678, 1e-300, [[-2.0]]]));
    }
}
