/* SPDX-License-Identifier: BSD-3-Clause */
/* What a loop that waits for another CPU does between two looks. */
#pragma once

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}
