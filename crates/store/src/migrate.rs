//! Brings a recording of an older format to the present one, a step a version.
//!
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
    fn there_is_a_step_for_every_older_format() {
        assert_eq!(STEPS.len(), crate::schema::VERSION);
    }

    #[test]
    fn every_step_leads_to_the_tables_of_a_new_recording() {
        // What a first format looked like before its steps, from today's: the steps only ever add columns at the end.
        let columns = |c: &Connection| -> Vec<String> {
            let mut names = Vec::new();
            for table in crate::schema::TABLES {
                c.pragma(None, "table_info", table, |row| {
                    names.push(format!("{table}.{}", row.get::<_, String>(1)?));
                    Ok(())
                })
                .unwrap();
            }
            names
        };
        let fresh = Connection::open_in_memory().unwrap();
        fresh.execute_batch(crate::schema::CREATE).unwrap();
        let mut old = Connection::open_in_memory().unwrap();
        old.execute_batch(&crate::schema::CREATE.replace(",\n    reason TEXT", "")).unwrap();
        assert_ne!(columns(&old), columns(&fresh));
        migrate(&mut old, 0).unwrap();
        assert_eq!(columns(&old), columns(&fresh));
        assert_eq!(old.pragma_query_value(None, "user_version", |r| r.get::<_, i64>(0)).unwrap(), 1);
    }
}
