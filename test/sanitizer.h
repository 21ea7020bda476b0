/* SPDX-License-Identifier: BSD-3-Clause */
/* PX_TEST_ASAN: built with the address sanitizer, which takes terabytes of address space and keeps what was freed. */
#ifndef PX_TEST_SANITIZER_H
#define PX_TEST_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__)
#define PX_TEST_ASAN 1
#elif defined(__has_feature)
#define PX_TEST_ASAN __has_feature(address_sanitizer)
#else
#define PX_TEST_ASAN 0
#endif

#endif
