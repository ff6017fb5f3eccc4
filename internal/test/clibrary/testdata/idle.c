/*
 * A program whose tracer steps through idle probes, each function once: those of the library, and the same from a probe.c that knows
 * no recordings.
 */
#include "libstapsdt.h"

void plainFire(SDTProbe_t *probe, ...);
void plainFireV(SDTProbe_t *probe, const uint64_t *values);
int plainIsEnabled(SDTProbe_t *probe);
__attribute__((noinline)) void finished(void);

void finished(void) { __asm__ volatile(""); }

int main(void)
{
	SDTProvider_t *provider = providerInit("idle");
	SDTProbe_t *probe = providerAddProbe(provider, "event", 3, uint64, uint64, uint64);
	const uint64_t values[] = {1, 2, 3};

	if (!probe || providerLoad(provider) != 0)
		return 1;
	__asm__ volatile("int3");
	plainFire(probe, values[0], values[1], values[2]);
	plainFireV(probe, values);
	(void)plainIsEnabled(probe);
	probeFire(probe, values[0], values[1], values[2]);
	probeFireV(probe, values);
	(void)probeIsEnabled(probe);
	finished();
	providerDestroy(provider);
	return 0;
}
