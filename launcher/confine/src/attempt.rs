//! One raw system call, for probes and hostile programs: what the kernel answers when a wrapper would not even ask.
//!
//! Memory safety holds for calls that touch only the buffers that they are given. Calls that change how this process's memory
//! is mapped or that start a thread on a given stack are refused here with `EOPNOTSUPP`, unasked, unless their arguments make
//! them harmless; a probe of those passes [`Arg::Null`] or invalid values.

use nix::errno::Errno;

/// An argument of a raw system call.
#[derive(Debug)]
pub enum Arg<'a> {
    /// A number: a descriptor, flags, a length.
    Int(i64),
    /// Memory that the call reads.
    In(&'a [u8]),
    /// Memory that the call may write. Its length must be one of the call's other arguments, or fixed by the call.
    Out(&'a mut [u8]),
    /// A null pointer.
    Null,
    /// A pointer to nothing that is mapped: an address in the first page.
    Bad,
}

impl Arg<'_> {
    fn raw(&mut self) -> u64 {
        match self {
            Arg::Int(n) => *n as u64,
            Arg::In(bytes) => bytes.as_ptr() as u64,
            Arg::Out(bytes) => bytes.as_mut_ptr() as u64,
            Arg::Null => 0,
            Arg::Bad => 8,
        }
    }
}

/// Calls that would pull memory or control from under this program.
fn endangers_this_process(nr: i64, raw: &[u64; 6]) -> bool {
    match nr & !0x4000_0000 {
        libc::SYS_mmap
        | libc::SYS_munmap
        | libc::SYS_mremap
        | libc::SYS_mprotect
        | libc::SYS_pkey_mprotect
        | libc::SYS_brk
        | libc::SYS_madvise
        | libc::SYS_shmat
        | libc::SYS_rt_sigreturn
        | libc::SYS_rt_sigaction
        | libc::SYS_sigaltstack
        | libc::SYS_arch_prctl
        | libc::SYS_set_robust_list
        | libc::SYS_rseq
        | libc::SYS_set_tid_address
        | libc::SYS_remap_file_pages
        | libc::SYS_vfork => true,
        libc::SYS_clone => raw[0] & (libc::CLONE_VM | libc::CLONE_SETTLS) as u64 != 0,
        _ => false,
    }
}

/// Performs system call `nr` and returns its result or the kernel's error.
pub fn syscall(nr: i64, mut args: [Arg<'_>; 6]) -> Result<i64, Errno> {
    let mut raw = [0; 6];
    for (place, arg) in raw.iter_mut().zip(args.iter_mut()) {
        *place = arg.raw();
    }
    if endangers_this_process(nr, &raw) {
        return Err(Errno::EOPNOTSUPP);
    }
    // SAFETY: pointers are null, invalid, or to live buffers with the access that `Arg` states; calls that change mappings,
    // thread state or the stack are refused above. A fork through this returns twice, as `fork` does.
    let rc = unsafe { libc::syscall(nr, raw[0], raw[1], raw[2], raw[3], raw[4], raw[5]) };
    Errno::result(rc)
}

/// Performs a call whose arguments are numbers only; missing ones are 0.
pub fn numbers(nr: i64, args: &[i64]) -> Result<i64, Errno> {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    syscall(nr, all.map(Arg::Int))
}

/// What became of a call that is expected to be refused: for reports.
pub fn describe(result: &Result<i64, Errno>) -> String {
    match result {
        Ok(value) => format!("{value}"),
        Err(errno) => format!("{errno:?}"),
    }
}

/// The same call by another ABI: 32-bit `int 0x80`. Only for calls whose arguments are numbers below 2^32. Where the kernel
/// has no 32-bit emulation, or a filter kills foreign calls, the process gets `SIGSEGV` or `SIGSYS`: call it in a child.
pub fn int80(nr: u32, args: [u32; 3]) -> Result<i32, Errno> {
    let result: i32;
    // SAFETY: rbx is saved and restored by hand because the compiler reserves it; the kernel preserves every other register
    // apart from rax and r8 to r11. Arguments are plain numbers, below 4 GiB, where nothing of a PIE program is mapped.
    unsafe {
        std::arch::asm!(
            "push rbx",
            "mov ebx, {first:e}",
            "int 0x80",
            "pop rbx",
            first = in(reg) args[0],
            inlateout("eax") nr as i32 => result,
            in("ecx") args[1],
            in("edx") args[2],
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    if (-4095..0).contains(&result) {
        Err(Errno::from_raw(-result))
    } else {
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_are_the_kernels() {
        assert_eq!(numbers(libc::SYS_getpid, &[]).unwrap(), i64::from(std::process::id()));
        assert_eq!(numbers(libc::SYS_close, &[-1]), Err(Errno::EBADF));
        assert_eq!(
            syscall(
                libc::SYS_access,
                [Arg::Bad, Arg::Int(0), Arg::Null, Arg::Null, Arg::Null, Arg::Null]
            ),
            Err(Errno::EFAULT)
        );
        assert_eq!(numbers(100_000, &[]), Err(Errno::ENOSYS));
    }

    #[test]
    fn memory_goes_in_and_out() {
        let path = b"/dev/null\0";
        let fd = syscall(
            libc::SYS_open,
            [Arg::In(path), Arg::Int(0), Arg::Null, Arg::Null, Arg::Null, Arg::Null],
        )
        .unwrap();
        let mut pair = [0u8; 8];
        syscall(
            libc::SYS_pipe2,
            [
                Arg::Out(&mut pair),
                Arg::Int(0),
                Arg::Null,
                Arg::Null,
                Arg::Null,
                Arg::Null,
            ],
        )
        .unwrap();
        for number in [
            fd,
            i32::from_le_bytes(pair[..4].try_into().unwrap()).into(),
            i32::from_le_bytes(pair[4..].try_into().unwrap()).into(),
        ] {
            numbers(libc::SYS_close, &[number]).unwrap();
        }
    }

    #[test]
    fn calls_on_our_own_mappings_are_not_made() {
        assert_eq!(numbers(libc::SYS_munmap, &[4096, 4096]), Err(Errno::EOPNOTSUPP));
        assert_eq!(
            numbers(libc::SYS_clone, &[i64::from(libc::CLONE_VM)]),
            Err(Errno::EOPNOTSUPP)
        );
        assert_eq!(numbers(libc::SYS_mmap | 0x4000_0000, &[]), Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn the_32_bit_abi_is_reached_where_the_kernel_has_it() {
        let child = crate::process::fork(|| match int80(20 /* getpid */, [0; 3]) {
            Ok(pid) if pid == std::process::id() as i32 => 0,
            Ok(_) => 1,
            Err(_) => 2,
        });
        // Without CONFIG_IA32_EMULATION the child ends by SIGSEGV, which is an answer, too.
        let status = child.unwrap().wait().unwrap();
        assert!(
            matches!(
                status,
                crate::process::Exit::Code(0) | crate::process::Exit::Signal(libc::SIGSEGV)
            ),
            "{status:?}"
        );
    }
}
