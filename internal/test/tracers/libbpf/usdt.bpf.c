/* Sends the arguments of a probe. The cookie has a bit for each argument, set where it is a string. */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/usdt.bpf.h>
#include "usdt.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

SEC("usdt")
int probe(struct pt_regs *ctx)
{
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	long strings = bpf_usdt_cookie(ctx), value;

	if (!e)
		return 0;
	for (int i = 0; i < MAX_ARGS; i++) {
		value = 0;
		e->texts[i][0] = 0;
		bpf_usdt_arg(ctx, i, &value); /* it fails behind the last */
		if (strings & 1 << i)
			bpf_probe_read_user_str(e->texts[i], MAX_TEXT, (void *)value);
		e->args[i] = value;
	}
	bpf_ringbuf_submit(e, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
