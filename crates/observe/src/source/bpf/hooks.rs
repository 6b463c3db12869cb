//! Programs at the kernel's tracepoints and functions (`tp_btf/…`, `fexit/…`): loaded with the number of the hook as it was
//! found in the kernel's types.
//!
//! libbpf would look for it itself, and for that read all of these types. So that it does not, programs of such sections
//! pass for raw tracepoints until they are loaded. Not here: how numbers are found (`kernel_types`).

use super::kernel_types::hook_of;
use libbpf_rs::libbpf_sys;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_int, c_long};
use std::os::unix::ffi::OsStrExt;
use std::sync::Once;

thread_local! {
    /// For what is loaded on this thread now: libbpf calls back from within its loading.
    static NUMBERS: RefCell<BTreeMap<String, u32>> = const { RefCell::new(BTreeMap::new()) };
}

/// Tells libbpf what to do with such sections. Before the first object is opened; later calls do nothing.
pub(super) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (section, attach_type) in
            [(c"tp_btf+", libbpf_sys::BPF_TRACE_RAW_TP), (c"fexit+", libbpf_sys::BPF_TRACE_FEXIT)]
        {
            let handler = libbpf_sys::libbpf_prog_handler_opts {
                sz: size_of::<libbpf_sys::libbpf_prog_handler_opts>() as libbpf_sys::size_t,
                prog_prepare_load_fn: Some(prepare),
                ..Default::default()
            };
            let type_until_loaded = libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT;
            // SAFETY: libbpf copies both what is pointed to; nobody else opens objects or registers meanwhile, as all do
            // so after this has returned. It fails without memory only, and then libbpf does all by itself.
            unsafe {
                libbpf_sys::libbpf_register_prog_handler(
                    section.as_ptr(),
                    type_until_loaded,
                    attach_type,
                    &raw const handler,
                )
            };
        }
    });
}

/// Whether the programs of a section are of that kind.
pub(super) fn is_hook(section: &OsStr) -> bool {
    hook_of(section).is_some()
}

/// Runs `load`, in which objects are loaded, with these numbers.
pub(super) fn with_numbers<T>(numbers: &BTreeMap<String, u32>, load: impl FnOnce() -> T) -> T {
    NUMBERS.with_borrow_mut(|current| current.clone_from(numbers));
    let outcome = load();
    NUMBERS.with_borrow_mut(BTreeMap::clear);
    outcome
}

/// Called by libbpf when it has everything about a program but the number of its hook.
///
/// # Safety
///
/// `program` and `options` are libbpf's own and valid until this returns.
unsafe extern "C" fn prepare(
    program: *mut libbpf_sys::bpf_program,
    options: *mut libbpf_sys::bpf_prog_load_opts,
    _: c_long,
) -> c_int {
    // SAFETY: the program is valid, and its section's name is a string that lives as long.
    let section = unsafe { CStr::from_ptr(libbpf_sys::bpf_program__section_name(program)) };
    let number = hook_of(OsStr::from_bytes(section.to_bytes()))
        .and_then(|hook| NUMBERS.with_borrow(|numbers| numbers.get(&hook).copied()));
    let Some(number) = number else { return -libc::ESRCH };
    // SAFETY: both are valid, and libbpf reads the type only after this.
    unsafe {
        (*options).attach_btf_id = number;
        libbpf_sys::bpf_program__set_type(program, libbpf_sys::BPF_PROG_TYPE_TRACING)
    }
}
