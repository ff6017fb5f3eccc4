/*
 * The debug sections, which tell tracers the names and types of arguments: DWARF 4 with a
 * function for each site. internal/dwarf writes the same bytes, and explains them.
 */
#include "private.h"

#include <stdlib.h>

/* The codes of the abbreviations. The others are for types that C does not have. */
enum {
	ABBREV_UNIT = 1,
	ABBREV_SITE,
	ABBREV_BARE_SITE,
	ABBREV_PARAMETER,
	ABBREV_VARIABLE,
	ABBREV_BASE,
	ABBREV_POINTER,
	ABBREV_CONST = 9
};

/* The attributes with their forms. */
#define NAME "\x03\x0e"            /* DW_AT_name, DW_FORM_strp */
#define PRODUCER "\x25\x0e"        /* DW_AT_producer, DW_FORM_strp */
#define COMP_DIR "\x1b\x0e"        /* DW_AT_comp_dir, DW_FORM_strp */
#define LANGUAGE "\x13\x0b"        /* DW_AT_language, DW_FORM_data1 */
#define LOW_PC "\x11\x01"          /* DW_AT_low_pc, DW_FORM_addr */
#define HIGH_PC1 "\x12\x0b"        /* DW_AT_high_pc, DW_FORM_data1 */
#define HIGH_PC4 "\x12\x06"        /* DW_AT_high_pc, DW_FORM_data4 */
#define STMT_LIST "\x10\x17"       /* DW_AT_stmt_list, DW_FORM_sec_offset */
#define DECL_FILE "\x3a\x0b"       /* DW_AT_decl_file, DW_FORM_data1 */
#define DECL_LINE "\x3b\x0f"       /* DW_AT_decl_line, DW_FORM_udata */
#define EXTERNAL "\x3f\x19"        /* DW_AT_external, DW_FORM_flag_present */
#define PROTOTYPED "\x27\x19"      /* DW_AT_prototyped, DW_FORM_flag_present */
#define TYPE "\x49\x13"            /* DW_AT_type, DW_FORM_ref4 */
#define LOCATION "\x02\x18"        /* DW_AT_location, DW_FORM_exprloc */
#define ENCODING "\x3e\x0b"        /* DW_AT_encoding, DW_FORM_data1 */
#define BYTE_SIZE1 "\x0b\x0b"      /* DW_AT_byte_size, DW_FORM_data1 */
#define BYTE_SIZE "\x0b\x0f"       /* DW_AT_byte_size, DW_FORM_udata */
#define MEMBER_LOCATION "\x38\x0f" /* DW_AT_data_member_location, DW_FORM_udata */
#define UPPER_BOUND "\x2f\x0f"     /* DW_AT_upper_bound, DW_FORM_udata */
#define COUNT "\x37\x0f"           /* DW_AT_count, DW_FORM_udata */
#define END "\x00\x00"

/* .debug_abbrev. The NUL at its end is the end of the table. */
static const char abbrevs[] =
	"\x01\x11\x01" PRODUCER LANGUAGE NAME COMP_DIR LOW_PC HIGH_PC4 STMT_LIST END
	"\x02\x2e\x01" NAME LOW_PC HIGH_PC1 DECL_FILE DECL_LINE EXTERNAL PROTOTYPED END
	"\x03\x2e\x00" NAME LOW_PC HIGH_PC1 DECL_FILE DECL_LINE EXTERNAL END
	"\x04\x05\x00" NAME TYPE LOCATION END
	"\x05\x34\x00" NAME TYPE LOCATION END
	"\x06\x24\x00" NAME ENCODING BYTE_SIZE1 END
	"\x07\x0f\x00" BYTE_SIZE1 TYPE END
	"\x08\x0f\x00" BYTE_SIZE1 END
	"\x09\x26\x00" TYPE END
	"\x0a\x16\x00" NAME TYPE END
	"\x0b\x13\x01" NAME BYTE_SIZE END
	"\x0c\x13\x00" NAME BYTE_SIZE END
	"\x0d\x0d\x00" NAME TYPE MEMBER_LOCATION END
	"\x0e\x01\x01" TYPE END
	"\x0f\x21\x00" UPPER_BOUND END
	"\x10\x21\x00" COUNT END;

/* The types, in the order of this table. A type may refer to one other. */
enum { NO_TYPE, TYPE_TEXT = 9, TYPE_CONST_CHAR, TYPE_CHAR, TYPES };

#define ATE_SIGNED 5
#define ATE_SIGNED_CHAR 6
#define ATE_UNSIGNED 7

static const struct type_row {
	const char *name;
	ArgType_t arg;
	unsigned char abbrev, encoding, size;
	int to;
} type_rows[TYPES] = {
	[1] = {"uint8", uint8, ABBREV_BASE, ATE_UNSIGNED, 1, NO_TYPE},
	{"int8", int8, ABBREV_BASE, ATE_SIGNED, 1, NO_TYPE},
	{"uint16", uint16, ABBREV_BASE, ATE_UNSIGNED, 2, NO_TYPE},
	{"int16", int16, ABBREV_BASE, ATE_SIGNED, 2, NO_TYPE},
	{"uint32", uint32, ABBREV_BASE, ATE_UNSIGNED, 4, NO_TYPE},
	{"int32", int32, ABBREV_BASE, ATE_SIGNED, 4, NO_TYPE},
	{"uint64", uint64, ABBREV_BASE, ATE_UNSIGNED, 8, NO_TYPE},
	{"int64", int64, ABBREV_BASE, ATE_SIGNED, 8, NO_TYPE},
	[TYPE_TEXT] = {NULL, sdt_string, ABBREV_POINTER, 0, 8, TYPE_CONST_CHAR},
	[TYPE_CONST_CHAR] = {NULL, noarg, ABBREV_CONST, 0, 0, TYPE_CHAR},
	[TYPE_CHAR] = {"char", noarg, ABBREV_BASE, ATE_SIGNED_CHAR, 1, NO_TYPE},
};

struct encoder {
	const struct sdt_provider *provider;
	const struct sdt_image *image;
	const struct sdt_registers *registers;
	struct sdt_buffer *info;
	struct sdt_buffer *text;
	struct sdt_names strings; /* with their offsets in text, which is .debug_str */
	/*
	 * The types in the order of their first use, and the offset of each in .debug_info.
	 */
	int order[TYPES], types;
	uint32_t at[TYPES];
};

/* string_offset returns the offset of a string in .debug_str. It adds a new string. */
static uint32_t string_offset(struct encoder *encoder, const char *string)
{
	struct sdt_buffer *out = encoder->text;
	const struct sdt_name *name;
	uint32_t end = (uint32_t)out->size;

	if (out->failed || !sdt_names_reserve(&encoder->strings) || out->size >= UINT32_MAX) {
		out->failed = true;
		return 0;
	}
	name = sdt_names_add(&encoder->strings, &(struct sdt_name){string, {.offset = end}});
	if (name->offset == end)
		sdt_buffer_add(out, string, strlen(string) + 1);
	return name->offset;
}

/* Numbers are little-endian, as both architectures that have DWARF are. */
static void put_number(struct sdt_buffer *out, uint64_t value, size_t size)
{
	unsigned char *bytes = sdt_buffer_extend(out, size);

	for (size_t i = 0; bytes && i < size; i++)
		bytes[i] = (unsigned char)(value >> 8 * i);
}

static void put_uleb(struct sdt_buffer *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put_number(out, value | 0x80, 1);
	put_number(out, value, 1);
}

static void put_string(struct encoder *encoder, const char *string)
{
	put_number(encoder->info, string_offset(encoder, string), 4);
}

#define VERSION 4
#define ADDRESS_SIZE 8
#define LANGUAGE_C99 0x0c

static uint64_t text_size(const struct encoder *encoder)
{
	return encoder->provider->count * SDT_SLOT;
}

static void add_unit(struct encoder *encoder)
{
	struct sdt_buffer *info = encoder->info;

	put_number(info, 0, 4); /* the length, which is known at the end */
	put_number(info, VERSION, 2);
	put_number(info, 0, 4); /* the offset of the abbreviations */
	put_number(info, ADDRESS_SIZE, 1);
	put_number(info, ABBREV_UNIT, 1);
	put_string(encoder, "stapsdt");
	put_number(info, LANGUAGE_C99, 1);
	put_string(encoder, encoder->provider->name);
	put_string(encoder, "/");
	put_number(info, encoder->image->addr[SDT_TEXT], ADDRESS_SIZE);
	put_number(info, text_size(encoder), 4);
	put_number(info, 0, 4); /* the offset of the line table */
}

static int type_of(ArgType_t arg)
{
	int type = TYPES - 1;

	while (type > NO_TYPE && type_rows[type].arg != arg)
		type--;
	return type;
}

/* use_type adds a type to the types in use, if it is new. */
static void use_type(struct encoder *encoder, int type)
{
	for (int i = 0; i < encoder->types; i++)
		if (encoder->order[i] == type)
			return;
	encoder->order[encoder->types++] = type;
}

/* arguments_of returns the names of a probe's arguments, or NULL if they have none. */
static const char *arguments_of(const struct encoder *encoder, const struct sdt_probe *probe)
{
	return sdt_names_find(&encoder->provider->names, probe->name)->arguments;
}

static void collect_types(struct encoder *encoder)
{
	for (const struct sdt_probe *p = sdt_first(encoder->provider); p; p = sdt_next(p))
		for (int i = 0; arguments_of(encoder, p) && i < p->count; i++)
			use_type(encoder, type_of(p->types[i]));
}

/* add_types adds the types in use. A type follows all types that refer to it. */
static void add_types(struct encoder *encoder)
{
	struct sdt_buffer *info = encoder->info;
	size_t reference[TYPES] = {0};

	for (int i = 0; i < encoder->types; i++) {
		int type = encoder->order[i];
		const struct type_row *row = &type_rows[type];

		encoder->at[type] = (uint32_t)info->size;
		put_number(info, row->abbrev, 1);
		if (row->name)
			put_string(encoder, row->name);
		if (row->encoding)
			put_number(info, row->encoding, 1);
		if (row->size)
			put_number(info, row->size, 1);
		if (row->to == NO_TYPE)
			continue;
		reference[type] = info->size;
		put_number(info, 0, 4);
		use_type(encoder, row->to);
	}
	for (int type = 0; type < TYPES && !info->failed; type++)
		if (reference[type])
			sdt_put32(encoder->image->arch, info->data + reference[type],
				  encoder->at[type_rows[type].to]);
}

#define OP_REG0 0x50  /* the value is in the register */
#define OP_BREG0 0x70 /* the value is at an offset from the register */

static void add_location(struct encoder *encoder, size_t i)
{
	const struct sdt_registers *registers = encoder->registers;

	if (i < registers->count) {
		put_number(encoder->info, 1, 1);
		put_number(encoder->info, OP_REG0 + registers->args[i], 1);
		return;
	}
	put_number(encoder->info, 2, 1);
	put_number(encoder->info, OP_BREG0 + registers->stack, 1);
	put_number(encoder->info, registers->stack_first + 8 * (i - registers->count), 1);
}

/* bpftrace rejects a function with more parameters: the arguments after them are variables. */
#define MAX_PARAMETERS 6

static void add_site(struct encoder *encoder, const struct sdt_probe *probe)
{
	const struct sdt_image *image = encoder->image;
	const char *argument = arguments_of(encoder, probe);
	struct sdt_buffer *info = encoder->info;

	put_number(info, argument ? ABBREV_SITE : ABBREV_BARE_SITE, 1);
	put_string(encoder, probe->name);
	put_number(info, image->addr[SDT_TEXT] + probe->index * SDT_SLOT, ADDRESS_SIZE);
	put_number(info, image->nop->size + image->arch->ret_size, 1);
	put_number(info, 1, 1); /* the first file */
	put_uleb(info, probe->index + 1);
	if (!argument)
		return;
	for (int i = 0; i < probe->count; i++) {
		put_number(info, i < MAX_PARAMETERS ? ABBREV_PARAMETER : ABBREV_VARIABLE, 1);
		put_string(encoder, argument);
		put_number(info, encoder->at[type_of(probe->types[i])], 4);
		add_location(encoder, (size_t)i);
		argument += strlen(argument) + 1;
	}
	put_number(info, 0, 1); /* the end of the parameters */
}

static void fill_info(struct encoder *encoder)
{
	struct sdt_buffer *info = encoder->info;

	add_unit(encoder);
	collect_types(encoder);
	add_types(encoder);
	for (const struct sdt_probe *p = sdt_first(encoder->provider); p; p = sdt_next(p))
		add_site(encoder, p);
	put_number(info, 0, 1); /* the end of the unit's children */
	if (info->size > UINT32_MAX)
		info->failed = true;
	if (!info->failed)
		sdt_put32(encoder->image->arch, info->data, (uint32_t)(info->size - 4));
}

static void fill_aranges(const struct encoder *encoder, struct sdt_buffer *out)
{
	put_number(out, 44, 4); /* the length */
	put_number(out, 2, 2);	 /* the version */
	put_number(out, 0, 4);	 /* the offset of the unit */
	put_number(out, ADDRESS_SIZE, 1);
	sdt_buffer_fill(out, 0, 5); /* padding to twice the size of an address */
	put_number(out, encoder->image->addr[SDT_TEXT], ADDRESS_SIZE);
	put_number(out, text_size(encoder), ADDRESS_SIZE);
	sdt_buffer_fill(out, 0, 2 * ADDRESS_SIZE);
}

/* A table with one file, which has the provider's name, and no lines. */
static void fill_line(const struct sdt_provider *provider, struct sdt_buffer *out)
{
	static const char header[] = "\x01\x01\x01\xfb\x0e\x0d"
				     "\x00\x01\x01\x01\x01\x00\x00\x00\x01\x00\x00\x01";
	/* The NUL of header ends the directories; three zeros and a NUL follow the name. */
	uint64_t size = sizeof header + (uint64_t)provider->name_size + 4;

	if (size > UINT32_MAX / 2) {
		out->failed = true;
		return;
	}
	put_number(out, 2 + 4 + size, 4);
	put_number(out, VERSION, 2);
	put_number(out, size, 4);
	sdt_buffer_add(out, header, sizeof header);
	sdt_buffer_add(out, provider->name, provider->name_size);
	sdt_buffer_fill(out, 0, 4);
}

bool sdt_dwarf_fill(const struct sdt_provider *provider, struct sdt_image *image)
{
	struct sdt_buffer *content = image->content;
	struct encoder encoder = {
		.provider = provider,
		.image = image,
		.registers = sdt_registers_find(image->arch),
		.info = &content[SDT_INFO],
		.text = &content[SDT_STR],
	};
	bool failed = false;

	for (int i = SDT_INFO; i < SDT_SHSTRTAB; i++)
		content[i].size = 0; /* but keep the memory, to which libelf points */
	sdt_buffer_add(&content[SDT_ABBREV], abbrevs, sizeof abbrevs);
	fill_info(&encoder);
	fill_aranges(&encoder, &content[SDT_ARANGES]);
	fill_line(provider, &content[SDT_LINE]);
	free(encoder.strings.slots);
	for (int i = SDT_INFO; i < SDT_SHSTRTAB; i++)
		failed |= content[i].failed;
	return !failed;
}
