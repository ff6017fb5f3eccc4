/*
 * A program whose tracer steps through idle probes, each function once: those of the library, the same
 * from a probe.c that knows no recordings, and callers into which the header's are inlined.
 */
#include "libstapsdt.h"

void plainFire(SDTProbe_t *probe, ...);
void plainFireV(SDTProbe_t *probe, const uint64_t *values);
int plainIsEnabled(SDTProbe_t *probe);
__attribute__((noinline)) void finished(void);
__attribute__((noinline)) void inlinedFire(SDTProbe_t *probe, uint64_t a, uint64_t b, uint64_t c);
__attribute__((noinline)) void inlinedFireV(SDTProbe_t *probe, const uint64_t *values);
__attribute__((noinline)) int inlinedIsEnabled(SDTProbe_t *probe);

void inlinedFire(SDTProbe_t *probe, uint64_t a, uint64_t b, uint64_t c) { probeFire(probe, a, b, c); }
void inlinedFireV(SDTProbe_t *probe, const uint64_t *values) { probeFireV(probe, values); }
int inlinedIsEnabled(SDTProbe_t *probe) { return probeIsEnabled(probe); }

void finished(void) { __asm__ volatile(""); }

int main(void)
{
	SDTProvider_t *provider = providerInit("idle");
	SDTProbe_t *probe = providerAddProbe(provider, "event", 3, uint64, uint64, uint64);
	const uint64_t values[] = {1, 2, 3};
	void (*volatile fire)(SDTProbe_t *, ...) = probeFire; /* not inlined */
	void (*volatile fire_v)(SDTProbe_t *, const uint64_t *) = probeFireV;
	int (*volatile is_enabled)(SDTProbe_t *) = probeIsEnabled;

	if (!probe || providerLoad(provider) != 0)
		return 1;
	__asm__ volatile("int3");
	plainFire(probe, values[0], values[1], values[2]);
	plainFireV(probe, values);
	(void)plainIsEnabled(probe);
	fire(probe, values[0], values[1], values[2]);
	fire_v(probe, values);
	(void)is_enabled(probe);
	inlinedFire(probe, values[0], values[1], values[2]);
	inlinedFireV(probe, values);
	(void)inlinedIsEnabled(probe);
	finished();
	providerDestroy(provider);
	return 0;
}
