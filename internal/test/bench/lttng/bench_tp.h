/* The tracepoints that LTTng-UST's macros make of these descriptions. The header is included several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER stapsdt_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "bench_tp.h"

#if !defined(BENCH_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_TP_H

#include <stdint.h>

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(stapsdt_bench, two, LTTNG_UST_TP_ARGS(uint64_t, id, int32_t, status),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, id, id)
					       lttng_ust_field_integer(int32_t, status, status)))

LTTNG_UST_TRACEPOINT_EVENT(stapsdt_bench, text, LTTNG_UST_TP_ARGS(const char *, path, int32_t, status),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_string(path, path)
					       lttng_ust_field_integer(int32_t, status, status)))

#endif

#include <lttng/tracepoint-event.h>
