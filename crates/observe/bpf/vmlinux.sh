#!/bin/sh
# Makes vmlinux.h: of the running kernel's types, only what vmlinux.list names. Needs bpftool and awk.
#   sh crates/observe/bpf/vmlinux.sh
# Offsets are not taken from here: CO-RE relocates every access by name when a program is loaded.
set -eu
cd "$(dirname "$0")"
types=$(mktemp)
trap 'rm -f "$types"' EXIT
bpftool btf dump file /sys/kernel/btf/vmlinux format c >"$types"
{
    cat <<'HEAD'
/* Made by vmlinux.sh from vmlinux.list: the kernel's types as far as the programs read them. Do not edit. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef int pid_t;
typedef _Bool bool;
enum { false, true };
enum { BPF_ANY, BPF_NOEXIST, BPF_EXIST };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_USER_STACK = 256, BPF_F_FAST_STACK_CMP = 512 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;
/* The number of the system call and its first argument, by architecture. */
struct pt_regs___x86 {
	long unsigned int orig_ax;
	long unsigned int di;
};
struct pt_regs___a64 {
	__s32 syscallno;
	u64 orig_x0;
};
/* A network namespace, where the kernel has several. */
typedef struct {
	struct net *net;
} possible_net_t;
typedef unsigned short umode_t;
struct in6_addr {
	u8 bytes[16];
};
HEAD
    while read -r kind name members; do
        case "$kind" in '#'* | '') continue ;; esac
        awk -v kind="$kind" -v name="$name" -v members="$members" '
            BEGIN { count = split(members, wanted, " ") }
            $0 == kind " " name " {" { inside = 1; found = 1; print; next }
            !inside { next }
            /^}/ { inside = 0; print; for (i = 1; i <= count; i++) if (!(i in seen)) { print kind, name, wanted[i] > "/dev/stderr"; exit 1 } ; next }
            kind == "enum" { print; next }
            members ~ /[.]/ && /^\t(struct|union) \{/ { open = $1; kept = ""; next }
            open && /^\t\} / {
                sub(/^\t\} /, ""); sub(/;.*/, "")
                for (i = 1; i <= count; i++) if (split(wanted[i], part, ".") == 2 && part[1] == $0) {
                    n = split(kept, line, "\n")
                    for (j = 1; j < n; j++) if (line[j] ~ "[ *]" part[2] "(\\[[0-9]+\\])?(: [0-9]+)?;$") {
                        seen[i] = 1; printf "\t%s {\n%s\n\t} %s;\n", open, line[j], part[1]
                    }
                }
                open = ""; next
            }
            open { kept = kept $0 "\n"; next }
            { for (i = 1; i <= count; i++) if ($0 ~ "[ *]" wanted[i] "(\\[[0-9]+\\])?(: [0-9]+)?;$" && !(i in seen)) { seen[i] = 1; sub(/^\t+/, "\t"); print } }
            END { if (!found) { print "no " kind " " name > "/dev/stderr"; exit 1 } }
        ' "$types"
    done <vmlinux.list
    cat <<'FOOT'

#pragma clang attribute pop
#endif
FOOT
} >vmlinux.h.new
mv vmlinux.h.new vmlinux.h
