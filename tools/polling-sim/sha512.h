/* SPDX-License-Identifier: BSD-3-Clause */
/* SHA-512 (FIPS 180-4) of a short text.  Not for secrets. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA512_BYTES 64
#define SHA512_TEXT_MAX 111 /* what one block holds */

/* @len is at most SHA512_TEXT_MAX. */
void sha512_short(const void *text, size_t len, uint8_t out[SHA512_BYTES]);
