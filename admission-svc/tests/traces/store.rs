//! The store by itself.

use std::{fs, path::Path};

use admission_svc::{Caps, Disk, StoreError, TraceStore as _};
use proto::v1::TraceRow;

use crate::opened::opened;

const CAPS: Caps = Caps { bytes: 64 << 20, rows: 1_000_000 };

fn rows(count: usize) -> Vec<TraceRow> {
    vec![TraceRow { request_id: "0".repeat(32), ..TraceRow::default() }; count]
}

fn numbers(disk: &mut Disk, mut after: u64) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        let page = disk.page(after, 7).expect("readable");
        assert!(page.rows.len() <= 7);
        all.extend(page.rows.iter().map(|row| row.number));
        let Some(next) = page.next else { return all };
        assert!(next > after, "a page must move on");
        after = next;
    }
}

fn filled(path: &Path, caps: Caps, count: usize) -> Disk {
    let mut disk = opened(path, caps);
    for _ in 0..count / 10 {
        disk.append(rows(10)).expect("taken");
        disk.flush().expect("flushed");
    }
    disk
}

fn segments(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).expect("a folder");
    let names = names.map(|entry| entry.expect("there").file_name().into_string().expect("text"));
    let mut names: Vec<_> = names.filter(|name| name.starts_with("rows-")).collect();
    names.sort();
    names
}

#[test]
fn numbers_go_on_after_a_restart_and_pages_cross_databases() {
    let dir = tempfile::tempdir().expect("a directory");
    let caps = Caps { rows: 160, ..CAPS };
    drop(filled(dir.path(), caps, 60));
    let mut disk = filled(dir.path(), caps, 40);
    assert_eq!(numbers(&mut disk, 0), (1..=100).collect::<Vec<_>>());
    assert_eq!(numbers(&mut disk, 42), (43..=100).collect::<Vec<_>>());
    assert_eq!(numbers(&mut disk, u64::MAX), [0; 0]);
    assert!(segments(dir.path()).len() > 3, "{:?}", segments(dir.path()));
    assert_eq!(disk.facts().lost, 0);
}

#[test]
fn the_oldest_rows_go_first_and_rows_are_capped() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut disk = filled(dir.path(), Caps { rows: 80, ..CAPS }, 300);
    let kept = numbers(&mut disk, 0);
    assert_eq!(kept.last(), Some(&300));
    assert!((70..=80).contains(&kept.len()), "{kept:?}");
    assert!(kept.windows(2).all(|pair| pair[1] == pair[0] + 1), "{kept:?}");
}

#[test]
fn bytes_are_capped_on_the_disk_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let caps = Caps { bytes: 8 << 20, ..CAPS };
    let mut disk = opened(dir.path(), caps);
    let big = TraceRow { round: "x".repeat(600), ..TraceRow::default() };
    let mut most = 0;
    for _ in 0..300 {
        disk.append(vec![big.clone(); 100]).expect("taken");
        disk.flush().expect("flushed");
        most = most.max(disk.facts().bytes);
    }
    assert!(most <= caps.bytes, "{most} bytes");
    let kept = numbers(&mut disk, 0);
    assert!(kept.len() > 2_000 && kept.len() < 30_000, "{} rows", kept.len());
    assert_eq!(kept.last(), Some(&30_000));
}

#[test]
fn a_folder_has_one_owner() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = Disk::open(dir.path(), CAPS).expect("a folder");
    let second = Disk::open(dir.path(), CAPS).err();
    assert!(matches!(second, Some(StoreError::InUse { .. })), "{second:?}");
    drop(first);
    drop(opened(dir.path(), CAPS));
}

#[test]
fn a_database_that_kills_the_process_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(filled(dir.path(), CAPS, 20));
    // As four processes leave it that have died over the first database.
    fs::write(dir.path().join("opening"), "1 4\n").expect("writable");
    let mut disk = filled(dir.path(), CAPS, 10);
    assert_eq!(numbers(&mut disk, 0), (21..=30).collect::<Vec<_>>());
    assert_eq!(disk.facts().lost, 20);
    assert!(dir.path().join("aside-00000000000000000001").exists());
    drop(disk);
    let mut again = filled(dir.path(), CAPS, 0);
    again.ready().expect("well");
    assert_eq!(again.facts().lost, 20, "counted once");
}

#[test]
fn kills_during_the_opening_do_not_cost_a_healthy_database() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(filled(dir.path(), CAPS, 20));
    for kills in 1..4 {
        fs::write(dir.path().join("opening"), format!("1 {kills}\n")).expect("writable");
        let mut disk = filled(dir.path(), CAPS, 0);
        disk.ready().expect("well");
        assert_eq!(numbers(&mut disk, 0), (1..=20).collect::<Vec<_>>(), "after {kills} kills");
        assert_eq!((disk.facts().lost, disk.facts().numbered), (0, 20));
    }
}

#[test]
fn an_export_that_cannot_see_the_newest_rows_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(filled(dir.path(), CAPS, 20));
    let mut disk = opened(dir.path(), CAPS);
    assert!(disk.page(0, 7).is_err(), "its recovery is still to come");
    disk.ready().expect("well");
    assert_eq!(numbers(&mut disk, 0).len(), 20);
}

#[test]
fn an_old_database_that_the_disk_refuses_does_not_keep_the_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let caps = Caps { rows: 160, ..CAPS };
    drop(filled(dir.path(), caps, 60));
    let oldest = dir.path().join(&segments(dir.path())[0]);
    // A folder where sled wants a file: refused for good, and to root as well.
    fs::remove_file(oldest.join("db")).expect("there");
    fs::create_dir(oldest.join("db")).expect("writable");
    let mut disk = filled(dir.path(), caps, 0);
    disk.ready().expect("well");
    let tries = (0..20).take_while(|_| disk.page(0, 7).is_err()).count();
    assert!(tries < 20, "it blocks every export");
    assert_eq!(numbers(&mut disk, 0), (21..=60).collect::<Vec<_>>());
    assert_eq!(disk.facts().lost, 20);
}

#[test]
fn without_the_mark_no_number_is_given_twice() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(filled(dir.path(), CAPS, 20));
    fs::remove_file(dir.path().join("mark")).expect("there");
    let mut disk = filled(dir.path(), CAPS, 10);
    let kept = numbers(&mut disk, 0);
    assert_eq!(kept[..20], (1..=20).collect::<Vec<_>>()[..]);
    assert!(kept.len() == 30 && kept[20] > 1_000_000, "{:?}", &kept[20..]);
    drop(disk);
    let mut again = filled(dir.path(), CAPS, 0);
    again.ready().expect("well");
    assert_eq!((again.facts().lost, numbers(&mut again, 0)), (0, kept));
}

#[test]
fn the_gap_behind_a_lost_mark_is_no_loss() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(filled(dir.path(), CAPS, 20));
    fs::remove_file(dir.path().join("mark")).expect("there");
    drop(filled(dir.path(), CAPS, 10));
    let oldest = &segments(dir.path())[0];
    fs::write(dir.path().join(oldest).join("conf"), "nonsense throughout").expect("writable");
    let mut disk = filled(dir.path(), CAPS, 0);
    disk.ready().expect("well");
    assert_eq!(numbers(&mut disk, 0).len(), 10);
    assert_eq!(disk.facts().lost, 0, "how many there were is not known");
}

#[test]
fn what_was_counted_before_a_new_database_is_not_counted_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let caps = Caps { rows: 160, ..CAPS };
    drop(filled(dir.path(), caps, 10));
    // As a kill leaves it that came before the rows 11 to 15 were on the disk.
    let newest = dir.path().join(&segments(dir.path())[0]);
    let mut mark = fs::read(dir.path().join("mark")).expect("there");
    mark[8..16].copy_from_slice(&15_u64.to_le_bytes());
    let sum = crc32fast::hash(&mark[..40]).to_le_bytes();
    mark[40..].copy_from_slice(&sum);
    fs::write(dir.path().join("mark"), mark).expect("writable");
    let mut disk = filled(dir.path(), caps, 40);
    assert_eq!(disk.facts().lost, 5);
    drop(disk);
    fs::write(newest.join("conf"), "nonsense throughout").expect("writable");
    disk = filled(dir.path(), caps, 0);
    disk.ready().expect("well");
    let kept = numbers(&mut disk, 0).len() as u64;
    assert_eq!(kept + disk.facts().lost, disk.facts().numbered, "{:?}", disk.facts());
}

#[test]
fn a_folder_that_somebody_removes_is_made_again_and_its_rows_are_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let folder = dir.path().join("traces");
    let mut disk = filled(&folder, CAPS, 20);
    fs::remove_dir_all(&folder).expect("there");
    for _ in 0..2 {
        disk.append(rows(10)).expect("taken");
        disk.flush().expect("flushed");
    }
    assert_eq!(numbers(&mut disk, 0), (21..=40).collect::<Vec<_>>());
    assert_eq!(disk.facts().lost, 20);
    drop(disk);
    let mut again = filled(&folder, CAPS, 10);
    assert_eq!((numbers(&mut again, 0).len(), again.facts().lost), (30, 20));
}

#[test]
fn only_the_latest_two_of_the_broken_ones_are_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    for _ in 0..4 {
        drop(filled(dir.path(), CAPS, 10));
        let newest = segments(dir.path()).pop().expect("one");
        fs::write(dir.path().join(newest).join("conf"), "nonsense throughout").expect("writable");
    }
    let mut disk = filled(dir.path(), CAPS, 10);
    assert_eq!(numbers(&mut disk, 0), (41..=50).collect::<Vec<_>>());
    assert_eq!(disk.facts().lost, 40);
    let entries = fs::read_dir(dir.path()).expect("a folder");
    let aside = entries.filter(|entry| {
        entry.as_ref().expect("there").file_name().to_string_lossy().starts_with("aside-")
    });
    assert_eq!(aside.count(), 2);
}

#[test]
fn a_file_in_the_place_of_the_folder_is_an_error_in_words() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    fs::write(&path, "").expect("writable");
    let error = Disk::open(&path, CAPS).err().expect("no folder").to_string();
    assert!(error.starts_with("cannot make the trace folder: "), "{error}");
}
