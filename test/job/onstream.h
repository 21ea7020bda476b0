/* SPDX-License-Identifier: BSD-3-Clause */
/* The stream that the typed calls of onstream_types.c.in go to. */
#ifndef PX_TEST_JOB_ONSTREAM_H
#define PX_TEST_JOB_ONSTREAM_H

#include "nvshmemx.h"

extern cudaStream_t test_stream;

#endif
