//! Brings a recording of an older format to the oldest that is read as it is, a step a version.
//!
//! Not to the present one: checksums cannot be made afterwards.
//! Only ever run on a private copy (`open`): the file itself stays as it was, so nothing can be lost by reading it.

use rusqlite::Connection;

/// `STEPS[n]` makes format n + 1 of format n.
const STEPS: [&str; 1] = [
    // 0 → 1: the reason why a recording stopped.
    "ALTER TABLE run ADD COLUMN reason TEXT;",
];

/// Applies every step from `found` on. Formats count from 0.
pub fn migrate(connection: &mut Connection, found: usize) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for (version, step) in STEPS.iter().enumerate().skip(found) {
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", version as i64 + 1)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_step_for_every_format_that_is_not_read_as_it_is() {
        assert_eq!(STEPS.len(), crate::schema::READ_AS_IS);
    }

    #[test]
    fn every_step_leads_to_the_columns_of_the_format_that_is_read_as_it_is() {
        let columns = |c: &Connection| -> Vec<String> {
            let mut names = Vec::new();
            c.pragma(None, "table_info", "run", |row| {
                names.push(row.get::<_, String>(1)?);
                Ok(())
            })
            .unwrap();
            names
        };
        let mut old = Connection::open_in_memory().unwrap();
        old.execute_batch(
            "CREATE TABLE run(id INTEGER PRIMARY KEY, started_at_unix_ns, target, capsule, plan, requests, end, totals, \
             samplers, diagnosis)",
        )
        .unwrap();
        let before = columns(&old);
        migrate(&mut old, 0).unwrap();
        assert_eq!(columns(&old), [before, vec!["reason".to_owned()]].concat());
        assert_eq!(old.pragma_query_value(None, "user_version", |r| r.get::<_, i64>(0)).unwrap(), 1);
    }
}
