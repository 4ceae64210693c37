//! Rows as a table: one block per link, the middle of all rounds, the load beside.

use std::fmt::Write;

use serde_json::Value;

use super::{Cell, Row, What};

/// One row, as it was measured.
pub(super) fn line(row: &Row) -> String {
    let what = match &row.failure {
        Some(reason) => format!("failed: {reason}"),
        None => shown(&[row]),
    };
    let doubts = if row.doubts.is_empty() { String::new() } else { format!("  ! {}", row.doubts.join("; ")) };
    format!("{}  {:<34}{what}{doubts}", head(row), row.transport)
}

/// All rows, by link and transport.
pub(super) fn of(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut blocks: Vec<(What, Cell, Vec<&str>)> = Vec::new();
    for row in rows {
        let found = blocks.iter().position(|(what, cell, _)| *what == row.what && *cell == row.cell);
        let place = found.unwrap_or_else(|| {
            blocks.push((row.what, row.cell, Vec::new()));
            blocks.len() - 1
        });
        if let Some((_, _, names)) =
            blocks.get_mut(place).filter(|block| !block.2.contains(&row.transport.as_str()))
        {
            names.push(&row.transport);
        }
    }
    for (what, cell, names) in blocks {
        let of_block: Vec<&Row> = rows.iter().filter(|row| row.what == what && row.cell == cell).collect();
        // Writing to a String can not fail.
        let _ = writeln!(
            text,
            "\n{}\n{:<34}{}",
            of_block.first().map_or(String::new(), |row| head(row)),
            "",
            titles(what)
        );
        for name in names {
            let same: Vec<&Row> = of_block.iter().filter(|row| row.transport == name).copied().collect();
            let good: Vec<&Row> = same.iter().filter(|row| row.failure.is_none()).copied().collect();
            let failed = same.len() - good.len();
            let failed = if failed == 0 { String::new() } else { format!("  ({failed} failed)") };
            let _ = writeln!(text, "{name:<34}{}{failed}", shown(&good));
        }
    }
    text
}

fn head(row: &Row) -> String {
    let Cell { rate_mbit, rtt_ms, loss_percent, ahead, .. } = row.cell;
    match row.what {
        What::Steady => {
            format!("{rate_mbit} Mbit/s, {rtt_ms} ms, {loss_percent} % loss, {ahead} chunks ahead")
        }
        What::Near => "loopback".into(),
        What::Move => format!("the address changes, {rtt_ms} ms, {loss_percent} % loss"),
        What::Memory => format!("memory of the answering end, {rtt_ms} ms"),
    }
}

fn titles(what: What) -> String {
    match what {
        What::Steady | What::Near => format!(
            "{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>7}",
            "Mbit/s", "rest ms", "p50 ms", "p99 ms", "max ms", "CPU/MB", "+kernel", "load"
        ),
        What::Move => format!("{:>12}{:>9}{:>7}", "outage ms", "asked", "load"),
        What::Memory => format!("{:>14}{:>14}{:>7}", "idle KiB/peer", "used KiB/peer", "load"),
    }
}

/// The middle of rows of one kind.
fn shown(rows: &[&Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let field = |name: &str| middle(rows.iter().map(|row| number(row, name)).collect());
    let load = middle(rows.iter().map(|row| f64::max(row.load_before, row.load_after)).collect());
    match first.what {
        What::Steady | What::Near => {
            // Milliseconds of both ends for a million bytes; then with the emulator's, where the kernel takes what arrives.
            let ends = |row: &Row| number(row, "client_cpu_s") + number(row, "server_cpu_s");
            let per_mb = |row: &Row, seconds: f64| seconds * 1e9 / number(row, "bytes");
            let own = middle(rows.iter().map(|row| per_mb(row, ends(row))).collect());
            let all = middle(rows.iter().map(|row| per_mb(row, ends(row) + row.shuttle_cpu_s)).collect());
            format!(
                "{:>8.1}{:>9.1}{:>9.1}{:>9.1}{:>9.1}{own:>9.2}{all:>9.2}{load:>7.1}",
                field("mbit"),
                field("at_rest_p50_ms"),
                field("small_p50_ms"),
                field("small_p99_ms"),
                field("small_max_ms")
            )
        }
        What::Move => format!("{:>12.0}{:>9.0}{load:>7.1}", field("outage_ms"), field("asked")),
        What::Memory => {
            format!("{:>14.1}{:>14.1}{load:>7.1}", field("idle_kib_per_peer"), field("used_kib_per_peer"))
        }
    }
}

fn number(row: &Row, name: &str) -> f64 {
    row.figures.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    if values.len() % 2 == 1 { at(half) } else { f64::midpoint(at(half.saturating_sub(1)), at(half)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_rounds_is_shown_and_failures_are_counted() {
        let row = |transport: &str, mbit: f64, failure: Option<&str>| Row {
            what: What::Steady,
            transport: transport.into(),
            cell: Cell { rate_mbit: 94.0, rtt_ms: 50.0, loss_percent: 1.0, queue_ms: 100, ahead: 8 },
            round: 0,
            at: String::new(),
            load_before: 1.0,
            load_after: 2.0,
            shuttle_cpu_s: 1.0,
            figures: serde_json::json!({
                "mbit": mbit, "bytes": 1e9, "client_cpu_s": 1.0, "server_cpu_s": 2.0, "small_p50_ms": 51.0,
            }),
            doubts: Vec::new(),
            failure: failure.map(str::to_owned),
        };
        let rows = [
            row("a", 10.0, None),
            row("b", 1.0, None),
            row("a", 30.0, None),
            row("a", 20.0, None),
            row("b", 0.0, Some("x")),
        ];
        let text = of(&rows);
        let of_a = text.lines().find(|line| line.starts_with("a ")).unwrap_or_default();
        assert!(of_a.contains(" 20.0") && of_a.contains(" 3.00") && of_a.contains(" 4.00"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("b ") && line.ends_with("(1 failed)")), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("94 Mbit/s, 50 ms, 1 % loss")).count(), 1);
    }
}
