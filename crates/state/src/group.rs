//! Whether a group is a user's own, as systems make one for each user and let it write (umask 002).
//!
//! By /etc/passwd and /etc/group alone: of a group or a user that only a directory server knows it is not known who is
//! in it, so it counts as others'.

/// Whether nobody but this user and root is in the group.
pub(crate) fn is_private(gid: u32, uid: u32) -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    is_private_by(gid, uid, &read("/etc/passwd"), &read("/etc/group"))
}

/// passwd(5), group(5): fields with colons between.
fn is_private_by(gid: u32, uid: u32, passwd: &str, group: &str) -> bool {
    let users: Vec<(&str, u32, u32)> = passwd
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            Some((name, fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
        })
        .collect();
    let is_ours = |of: u32| of == uid || of == 0;
    let is_known = users.iter().any(|(_, of, _)| *of == uid);
    let others_by_default = users.iter().any(|(_, of, primary)| *primary == gid && !is_ours(*of));
    let mut lines = group.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        (fields.next()?.parse::<u32>().ok()? == gid).then(|| fields.next().unwrap_or(""))
    });
    let is_own = |member: &str| users.iter().any(|(name, of, _)| *name == member && is_ours(*of));
    // The first line counts, as for getgrgid(3); a second one of the same number would only hide members.
    let members = (lines.next(), lines.next());
    match members {
        (Some(members), None) => {
            is_known && !others_by_default && members.split(',').filter(|member| !member.is_empty()).all(is_own)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_private_where_nobody_else_is_in_it() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n\
                      eve:x:1002:100::/:/bin/sh\nbroken\n";
        let group = "root:x:0:\nann:x:1000:\nbob:x:1001:ann\nusers:x:100:\nwith:x:2000:ann,root\nstaff:x:50:ann,bob\n\
                     twice:x:60:\ntwice:x:60:bob\ngone:x:70:who\n";
        for (gid, uid, expected) in [
            (1000, 1000, true),
            (0, 0, true),
            (0, 1000, true),
            (2000, 1000, true),
            // Bob's own group, with Ann in it.
            (1001, 1001, false),
            // Eve's by default.
            (100, 1000, false),
            (50, 1000, false),
            (60, 1000, false),
            (70, 1000, false),
            // A group that neither file names.
            (4711, 1000, false),
            (1000, 5000, false),
        ] {
            assert_eq!(is_private_by(gid, uid, passwd, group), expected, "group {gid} of user {uid}");
        }
        assert!(!is_private_by(0, 0, "", ""));
    }
}
