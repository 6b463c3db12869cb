//! What a crash may leave of a journal, byte by byte, and what it may not.

use std::fs;
use std::path::Path;

use super::*;

fn open(path: &Path) -> (Journal, Recovered, Map) {
    let mut map = Map::default();
    let (journal, recovered) = Journal::open(path, &mut map).unwrap();
    (journal, recovered, map)
}

fn commit(journal: &mut Journal, records: &[Record<'_>]) {
    let mut payload = Payload::default();
    records.iter().for_each(|record| payload.push(*record));
    journal.commit(&mut payload).unwrap();
    assert!(payload.is_empty());
}

/// Three frames; the sizes of the file behind each.
fn three(path: &Path) -> [u64; 3] {
    let (mut journal, recovered, map) = open(path);
    assert_eq!((recovered.records, recovered.cut_bytes, map.len()), (0, 0, 0));
    [
        &[Record::Save(b"a", b"1"), Record::Save(b"b", b"\x89\xf7nam\r\n\x1a")][..],
        &[Record::RemoveAll, Record::Save(b"c", b"")],
        &[Record::Remove(b"c"), Record::Save(b"d", b"4")],
    ]
    .map(|records| {
        commit(&mut journal, records);
        assert_eq!(fs::metadata(path).unwrap().len(), journal.bytes());
        journal.bytes()
    })
}

fn names(map: &Map) -> Vec<String> {
    let mut names: Vec<_> = map.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    names
}

#[test]
fn an_end_cut_at_every_byte_leaves_the_frames_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let ends = three(&path);
    let whole = fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let (mut journal, recovered, map) = open(&path);
        let frames = ends.iter().filter(|end| **end <= cut as u64).count();
        assert_eq!(names(&map), [&[][..], &["a", "b"], &["c"], &["d"]][frames], "cut at {cut}");
        let sound = if frames == 0 { MAGIC.len() as u64 } else { ends[frames - 1] };
        assert_eq!(fs::metadata(&path).unwrap().len(), sound, "what is torn is gone");
        if cut >= MAGIC.len() {
            assert_eq!(recovered.cut_bytes, cut as u64 - sound);
        }
        // And it goes on behind.
        commit(&mut journal, &[Record::Save(b"e", b"5")]);
        drop(journal);
        let (_, recovered, map) = open(&path);
        assert!(recovered.cut_bytes == 0 && names(&map).contains(&"e".to_owned()));
    }
}

#[test]
fn a_flipped_bit_in_the_last_frame_is_cut_and_in_front_of_another_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let ends = three(&path);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&path, &damaged).unwrap();
        let opened = Journal::open(&path, &mut Map::default());
        let frame = ends.iter().filter(|end| **end <= at as u64).count();
        match opened {
            Err(NamesError::NotAJournal { .. }) => assert!(at < MAGIC.len(), "{at}"),
            Err(NamesError::JournalDamaged { at: named, .. }) => {
                assert!(at >= MAGIC.len() && frame < 2, "{at}");
                assert_eq!(named, if frame == 0 { MAGIC.len() as u64 } else { ends[frame - 1] });
                assert_eq!(fs::read(&path).unwrap(), damaged, "a refused journal is left alone");
            }
            Ok((_, recovered)) => assert!(frame == 2 && recovered.cut_bytes == ends[2] - ends[1], "{at}"),
            Err(other) => panic!("{at}: {other}"),
        }
    }
}

#[test]
fn a_frame_inside_a_value_is_no_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (mut journal, ..) = open(&path);
    commit(&mut journal, &[Record::Save(b"a", b"1")]);
    let first = fs::read(&path).unwrap();
    // The whole first journal as a value, torn at its end: nothing sound follows.
    commit(&mut journal, &[Record::Save(b"b", &first)]);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let (_, recovered, map) = open(&path);
    assert!(recovered.cut_bytes > 0 && names(&map) == ["a"]);
}

#[test]
fn a_rewritten_journal_holds_what_is_and_takes_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (mut journal, ..) = open(&path);
    let mut map = Map::default();
    let value = vec![7; 300_000];
    for n in 0..20_u8 {
        commit(&mut journal, &[Record::Save(&[n % 10], &value)]);
        map.insert(&[n % 10], value.clone().into());
    }
    let before = journal.bytes();
    fs::write(with_ending(&path, ".new"), "left behind by a crash").unwrap();
    journal.rewrite(&map).unwrap();
    assert!(journal.bytes() < before * 6 / 10);
    assert!(!with_ending(&path, ".new").exists());
    commit(&mut journal, &[Record::Remove(&[3])]);
    drop(journal);
    let (_, recovered, again) = open(&path);
    assert_eq!((recovered.records, recovered.cut_bytes, again.len()), (11, 0, 9));
    assert_eq!(again.load(&[4]), Some(&*value));
}

#[test]
fn a_lock_keeps_others_out_as_long_as_it_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let held = lock(&path).unwrap();
    assert!(matches!(lock(&path), Err(NamesError::JournalInUse { .. })));
    // As a process has it that was forked meanwhile.
    let copy = held.file.try_clone().unwrap();
    drop(held);
    drop(lock(&path).unwrap());
    drop(copy);
    lock(&path).unwrap();
}
