/* The registers of user space as far as PT_REGS_PARM and PT_REGS_RC read them: x86-64 and arm64. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r10;
	unsigned long ax;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
};
struct user_pt_regs {
	u64 regs[31];
};

#pragma clang attribute pop
