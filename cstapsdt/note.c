/* The notes in .note.stapsdt, which describe the sites to tracers. */
#include "private.h"

#include <string.h>

#define OWNER "stapsdt"
#define TYPE 3
#define HEADER (12 + sizeof OWNER)
#define WORDS 3 /* location, base, semaphore */

static size_t padding_of(size_t size)
{
	return -size & 3;
}

/* write_arguments writes "8@%rdi -4@%rsi", for example, and a NUL. out must have room for it. */
static size_t write_arguments(char *out, const struct sdt_operands *operands,
			      const struct sdt_probe *probe)
{
	const struct sdt_operand *operand;
	char *start = out;

	for (int i = 0; i < probe->count; i++) {
		int type = sdt_tracer_type(probe->types[i]);

		if (i > 0)
			*out++ = ' ';
		if (type < 0)
			*out++ = '-';
		*out++ = (char)('0' + (type < 0 ? -type : type));
		*out++ = '@';
		operand = &operands->of[sdt_size_index(type)][i];
		memcpy(out, operand->text, operand->length);
		out += operand->length;
	}
	*out++ = '\0';
	return (size_t)(out - start);
}

void sdt_note_add(struct sdt_buffer *notes, const struct sdt_arch *arch,
		  const struct sdt_operands *operands, const struct sdt_provider *provider,
		  const struct sdt_probe *probe)
{
	char args[SDT_MAX_ARGUMENTS * (4 + sizeof operands->of[0][0].text)];
	size_t words = WORDS * sdt_word_size(arch);
	size_t args_size = write_arguments(args, operands, probe), size;
	unsigned char *note;

	if (__builtin_add_overflow(words + args_size, provider->name_size, &size) ||
	    __builtin_add_overflow(size, probe->name_size, &size) || size > UINT32_MAX / 2) {
		notes->failed = true;
		return;
	}
	note = sdt_buffer_extend(notes, HEADER + size + padding_of(size));
	if (!note)
		return;
	note = sdt_put32(arch, note, sizeof OWNER);
	note = sdt_put32(arch, note, (uint32_t)size);
	note = sdt_put32(arch, note, TYPE);
	memcpy(note, OWNER, sizeof OWNER);
	note += sizeof OWNER;
	memset(note, 0, words);
	note += words;
	memcpy(note, provider->name, provider->name_size);
	note += provider->name_size;
	memcpy(note, probe->name, probe->name_size);
	note += probe->name_size;
	memcpy(note, args, args_size);
	memset(note + args_size, 0, padding_of(size));
}

/* sdt_notes_address writes the addresses, which are known when the sections have been laid out. */
void sdt_notes_address(struct sdt_buffer *notes, const struct sdt_arch *arch, uint64_t sites,
		     uint64_t base)
{
	size_t word = sdt_word_size(arch);

	for (size_t at = 0; at < notes->size; sites += SDT_SLOT) {
		unsigned char *note = notes->data + at;
		size_t size = sdt_get32(arch, note + 4);

		sdt_put(arch, sdt_put(arch, note + HEADER, word, sites), word, base);
		at += HEADER + size + padding_of(size);
	}
}
