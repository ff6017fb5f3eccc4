/*
 * counter OBJECT attaches each program of an object to the probe that its section names, as ebpf_exporter does by
 * libbpf, says so, and prints a line for each entry of the object's table when its input has ended.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>

static int attach(struct bpf_object *object)
{
	struct bpf_program *program;

	if (bpf_object__load(object))
		return -1;
	bpf_object__for_each_program(program, object)
		if (!bpf_program__attach(program))
			return -1;
	return 0;
}

static void print(int table)
{
	__u32 key, *last = NULL;
	__u64 events;

	for (; !bpf_map_get_next_key(table, last, &key); last = &key)
		if (!bpf_map_lookup_elem(table, &key, &events))
			printf("%u=%llu\n", key, (unsigned long long)events);
}

int main(int argc, char **argv)
{
	struct bpf_object *object = argc == 2 ? bpf_object__open_file(argv[1], NULL) : NULL;

	if (!object || attach(object)) {
		perror("counter");
		return 1;
	}
	puts("attached");
	fflush(stdout);
	while (getchar() != EOF)
		;
	print(bpf_object__find_map_fd_by_name(object, "stapsdt_probe_events_total"));
	return 0;
}
