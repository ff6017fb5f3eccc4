/*
 * usdt OBJECT PID PATH PROVIDER PROBE FORMAT attaches libbpf's USDT support to a probe, prints what ten events had as
 * arguments, a line each, and ends. A PID of -1 is every process. FORMAT has a letter for each argument: u unsigned, d
 * signed, s string.
 */
#include "usdt.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *format;
static int left = 10;

static int print(void *context, void *data, size_t size)
{
	const struct event *e = data;

	(void)context;
	(void)size;
	for (size_t i = 0; format[i]; i++) {
		if (i > 0)
			putchar(' ');
		if (format[i] == 's')
			fputs(e->texts[i], stdout);
		else
			printf(format[i] == 'u' ? "%llu" : "%lld", e->args[i]);
	}
	putchar('\n');
	left--;
	return 0;
}

static int failed(const char *what)
{
	fprintf(stderr, "usdt: %s: %s\n", what, strerror(errno));
	return 1;
}

static unsigned long long strings(void)
{
	unsigned long long mask = 0;

	for (size_t i = 0; format[i]; i++)
		if (format[i] == 's')
			mask |= 1ull << i;
	return mask;
}

static int trace(struct bpf_object *object, char **argv)
{
	LIBBPF_OPTS(bpf_usdt_opts, opts, .usdt_cookie = strings());
	struct ring_buffer *ring;
	struct bpf_link *link;

	if (bpf_object__load(object))
		return failed("load");
	link = bpf_program__attach_usdt(bpf_object__find_program_by_name(object, "probe"),
	                                atoi(argv[2]), argv[3], argv[4], argv[5], &opts);
	if (!link)
		return failed("attach");
	ring = ring_buffer__new(bpf_object__find_map_fd_by_name(object, "events"), print, NULL, NULL);
	if (!ring) {
		bpf_link__destroy(link);
		return failed("ring buffer");
	}
	while (left > 0 && ring_buffer__poll(ring, 10000) > 0)
		;
	ring_buffer__free(ring);
	bpf_link__destroy(link);
	return left > 0 ? failed("no event came") : 0;
}

int main(int argc, char **argv)
{
	struct bpf_object *object;
	int status;

	if (argc == 2 && !strcmp(argv[1], "--version")) {
		puts(libbpf_version_string());
		return 0;
	}
	if (argc != 7 || strlen(argv[6]) > MAX_ARGS) {
		fprintf(stderr, "usage: usdt OBJECT PID PATH PROVIDER PROBE FORMAT\n");
		return 2;
	}
	format = argv[6];
	object = bpf_object__open_file(argv[1], NULL);
	if (!object)
		return failed(argv[1]);
	status = trace(object, argv);
	bpf_object__close(object);
	return status;
}
