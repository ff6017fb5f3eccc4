/* What probes are recorded to: observe.c decides that, and append.c reads it in every fire of a recorded probe. */
#ifndef SDT_OBSERVE_H
#define SDT_OBSERVE_H

#include "recorder.h"

/* A sink is a recording, and the probes that it has: all of them if patterns is NULL. */
struct sdt_sink {
	struct sdt_writer *writer;
	const struct sdt_patterns *patterns;
	uint32_t epoch; /* another one for each recording, or 0 */
};

extern struct sdt_sink sdt_sinks[SDT_SINKS];

/* What a probe is recorded to. */
struct sdt_observation {
	uint32_t sinks; /* a bit for each sink that has the probe */
	uint32_t size; /* of a record without the texts */
	const struct sdt_probe *probe;
	const ArgType_t *types;
	uint8_t count; /* of its arguments */
	bool has_texts;
	uint32_t numbers[SDT_SINKS]; /* they change only while no fire is in the writer */
};

/*
 * What the probes of a provider are recorded to, in the order of their sites. It stays when the
 * provider is unloaded, so that the probes have the same numbers if it is loaded again.
 */
struct sdt_observed {
	uint32_t epochs[SDT_SINKS]; /* of the sinks that the numbers are of */
	size_t count;
	struct sdt_observation of[];
};

#endif
