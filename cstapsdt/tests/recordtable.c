/* Tests of a recording's table of probes: who is in it once is not in it twice, whatever becomes of the file. */
#include "test.h"

#include "recording.h"

#include <fcntl.h>
#include <sys/mman.h>

static char path[64];

static void record(void) { rec_begin(path, 0); }

static void stop(struct recording *r) { rec_stop(r, path); }

/* use_briefly defines a provider with a probe, which it fires, and destroys it. */
static void use_briefly(const char *name)
{
	provider = test_provider("brief");
	CHECK(providerAddProbe(provider, name, 1, int32) && providerLoad(provider) == 0);
	probeFire(&provider->probes->probe, (uint64_t)1);
	providerDestroy(provider);
}

/* table_used returns how many bytes of the table are used. */
static uint64_t table_used(void)
{
	unsigned char number[8] = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && pread(fd, number, sizeof number, 24) == sizeof number);
	close(fd);
	return rec_number(number, 8);
}

/* Probes have one entry each, however many there are and however often they are defined. */
static void repeated_crowd(void)
{
	enum { CROWD = 1500 };
	struct recording r;
	char name[32];
	uint64_t used = 0;

	CHECK(sdtRecord(path, 16 << 20) == 0);
	for (int round = 0; round < 3; round++) {
		provider = test_provider("crowd");
		for (int i = 0; i < CROWD; i++) {
			snprintf(name, sizeof name, "probe%d", i);
			probe = providerAddProbe(provider, name, 1, int32);
		}
		CHECK(providerLoad(provider) == 0);
		for (SDTProbeList_t *p = provider->probes; p; p = p->next)
			probeFire(&p->probe, (uint64_t)1);
		CHECK(probe != NULL && (round == 0 || table_used() == used));
		used = table_used();
		providerDestroy(provider);
	}
	stop(&r);
	CHECK(r.dropped == 0 && r.of_probe[0] == 3 && r.of_probe[REC_PROBES - 1] == 3);
	rec_free(&r);
}

/* A table that is full has the probes that are in it, and no others. */
static void full(void)
{
	enum { LONG = 60000 };
	char *name = malloc(LONG + 1);
	struct recording r;
	uint64_t used;

	memset(name, 'n', LONG);
	name[LONG] = '\0';
	record();
	use_briefly("known");
	provider = test_provider("long");
	for (int i = 0; i < 40; i++) {
		int digits = snprintf(name, LONG, "%d", i);

		name[digits] = 'n';
		CHECK(providerAddProbe(provider, name, 0) != NULL);
	}
	CHECK(providerLoad(provider) == 0);
	providerDestroy(provider);
	for (int i = 0; i < 3000; i++) { /* what is left takes short names */
		used = table_used();
		snprintf(name, LONG, "short_%d_%0100d", i, 0);
		use_briefly(name);
		if (table_used() == used)
			break;
	}
	CHECK(rec_read(&r, path) && r.dropped == 1);
	rec_free(&r);
	use_briefly("known");
	CHECK(table_used() == used);
	stop(&r);
	CHECK(r.dropped == 1 && r.of_probe[0] == 2);
	rec_free(&r);
	free(name);
}

/* Whatever another process writes to the table, the probes have the numbers that they had. */
static void scribbled(void)
{
	static const unsigned char lies[] = {0, 0xff, 8, 1, 0x80};
	struct recording r;
	unsigned char *bytes;
	uint64_t used;
	int fd;

	record();
	use_briefly("first");
	use_briefly("second");
	used = table_used();
	fd = open(path, O_RDWR | O_CLOEXEC);
	bytes = mmap(NULL, 4096 + 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	CHECK(bytes != MAP_FAILED);
	for (size_t i = 0; i < sizeof lies; i++) {
		memset(bytes + 4096, lies[i], 4096);
		use_briefly("second");
		CHECK(table_used() == used);
	}
	munmap(bytes, 4096 + 4096);
	stop(&r);
	CHECK(r.of_probe[0] == 1 && r.of_probe[1] == 1 + sizeof lies && r.dropped == 0);
	rec_free(&r);
}

static const struct test tests[] = {
	{"a crowd that is defined repeatedly", repeated_crowd},
	{"a full table", full},
	{"another process writes to it", scribbled},
};

int main(void)
{
	snprintf(path, sizeof path, "/dev/shm/sdttable%d", (int)getpid());
	return test_main("recordtable", tests, sizeof tests / sizeof tests[0]);
}
