package dwarf

// The codes of the abbreviations, which are the kinds of entries in .debug_info.
const (
	abbrevUnit = 1 + iota
	abbrevSite
	abbrevBareSite
	abbrevParam
	abbrevVariable
	abbrevBase
	abbrevPointer
	abbrevVoidPointer
	abbrevConst
	abbrevTypedef
	abbrevStruct
	abbrevEmptyStruct
	abbrevMember
	abbrevArray
	abbrevRange
	abbrevEmptyRange
)

// abbrevs is .debug_abbrev. Each row is a code, a tag, and whether children follow; then
// the attributes with their forms, and two zeros.
const abbrevs = "" +
	"\x01\x11\x01" + producerAttr + language + name + compDir + lowPC + highPC4 + stmtList + end +
	"\x02\x2e\x01" + name + lowPC + highPC1 + declFile + declLine + external + prototyped + end +
	"\x03\x2e\x00" + name + lowPC + highPC1 + declFile + declLine + external + end +
	"\x04\x05\x00" + name + typeAttr + location + end +
	"\x05\x34\x00" + name + typeAttr + location + end +
	"\x06\x24\x00" + name + encoding + byteSize1 + end +
	"\x07\x0f\x00" + byteSize1 + typeAttr + end +
	"\x08\x0f\x00" + byteSize1 + end +
	"\x09\x26\x00" + typeAttr + end +
	"\x0a\x16\x00" + name + typeAttr + end +
	"\x0b\x13\x01" + name + byteSize + end +
	"\x0c\x13\x00" + name + byteSize + end +
	"\x0d\x0d\x00" + name + typeAttr + memberLocation + end +
	"\x0e\x01\x01" + typeAttr + end +
	"\x0f\x21\x00" + upperBound + end +
	"\x10\x21\x00" + count + end +
	"\x00"

// The attributes with their forms.
const (
	name           = "\x03\x0e" // DW_AT_name, DW_FORM_strp
	producerAttr   = "\x25\x0e" // DW_AT_producer, DW_FORM_strp
	compDir        = "\x1b\x0e" // DW_AT_comp_dir, DW_FORM_strp
	language       = "\x13\x0b" // DW_AT_language, DW_FORM_data1
	lowPC          = "\x11\x01" // DW_AT_low_pc, DW_FORM_addr
	highPC1        = "\x12\x0b" // DW_AT_high_pc, DW_FORM_data1
	highPC4        = "\x12\x06" // DW_AT_high_pc, DW_FORM_data4
	stmtList       = "\x10\x17" // DW_AT_stmt_list, DW_FORM_sec_offset
	declFile       = "\x3a\x0b" // DW_AT_decl_file, DW_FORM_data1
	declLine       = "\x3b\x0f" // DW_AT_decl_line, DW_FORM_udata
	external       = "\x3f\x19" // DW_AT_external, DW_FORM_flag_present
	prototyped     = "\x27\x19" // DW_AT_prototyped, DW_FORM_flag_present
	typeAttr       = "\x49\x13" // DW_AT_type, DW_FORM_ref4
	location       = "\x02\x18" // DW_AT_location, DW_FORM_exprloc
	encoding       = "\x3e\x0b" // DW_AT_encoding, DW_FORM_data1
	byteSize1      = "\x0b\x0b" // DW_AT_byte_size, DW_FORM_data1
	byteSize       = "\x0b\x0f" // DW_AT_byte_size, DW_FORM_udata
	memberLocation = "\x38\x0f" // DW_AT_data_member_location, DW_FORM_udata
	upperBound     = "\x2f\x0f" // DW_AT_upper_bound, DW_FORM_udata
	count          = "\x37\x0f" // DW_AT_count, DW_FORM_udata
	end            = "\x00\x00"
)
