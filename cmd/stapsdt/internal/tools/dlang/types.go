package dlang

import (
	"slices"
	"strings"
	"sync"
)

type ctype struct {
	// goType is the type of the argument in Go. If it is "", there is none, and why is the
	// reason.
	goType, why string
	// char reports whether a pointer to it is a string, and void whether it is void.
	char, void bool
}

// pointer is a pointer to anything except a string.
var pointer = ctype{goType: "unsafe.Pointer"}

// str is a string of D, and a char * of C.
var str = ctype{goType: "string"}

func pointerTo(t ctype) ctype {
	if t.char {
		return str
	}
	return pointer
}

// basic maps words to types. The words are in alphabetical order, without int if there is
// another word.
var basic = map[string]ctype{
	"char":               {goType: "int8", char: true},
	"char signed":        {goType: "int8"},
	"char unsigned":      {goType: "uint8"},
	"short":              {goType: "int16"},
	"short unsigned":     {goType: "uint16"},
	"int":                {goType: "int32"},
	"unsigned":           {goType: "uint32"},
	"long":               {goType: "int"},
	"long unsigned":      {goType: "uint"},
	"long long":          {goType: "int64"},
	"long long unsigned": {goType: "uint64"},
	"_Bool":              {goType: "bool"},
	"bool":               {goType: "bool"},
	"float":              {goType: "float32"},
	"double":             {goType: "float64"},
	"double long":        {why: "no tracer can read a long double"},
	"string":             str,
	"void":               {void: true, why: "void is not a type of an argument"},
}

var basicWords = strings.Fields("char short int long signed unsigned float double void string bool _Bool")

// qualifiers are words that do not change how an argument is passed.
var qualifiers = strings.Fields("const volatile restrict __restrict register auto static extern userland")

// basicType returns the type of the words, or false if they are not a type.
func basicType(words []string) (ctype, bool) {
	words = slices.Clone(words)
	slices.Sort(words)
	if t, ok := basic[strings.Join(words, " ")]; ok {
		return t, ok
	}
	for _, word := range words {
		if !slices.Contains([]string{"signed", "unsigned", "short", "long", "int"}, word) {
			return ctype{}, false
		}
	}
	// signed short int is short, and signed is int.
	if i := slices.Index(words, "signed"); i >= 0 && !slices.Contains(words, "unsigned") {
		words = slices.Delete(words, i, i+1)
		if len(words) == 0 {
			words = []string{"int"}
		}
	}
	if i := slices.Index(words, "int"); i >= 0 && len(words) > 1 {
		words = slices.Delete(words, i, i+1)
	}
	t, ok := basic[strings.Join(words, " ")]
	return t, ok
}

// named are the types of D and of C headers. A type that the file defines takes
// precedence.
var named = sync.OnceValue(func() map[string]ctype {
	named := map[string]ctype{"caddr_t": str}
	for goType, names := range map[string]string{
		"int8":    "int8_t",
		"int16":   "int16_t",
		"int32":   "int32_t pid_t id_t clockid_t key_t wchar_t boolean_t processorid_t projid_t zoneid_t",
		"int64":   "int64_t longlong_t off64_t loff_t hrtime_t intmax_t",
		"int":     "ssize_t intptr_t ptrdiff_t off_t time_t clock_t suseconds_t",
		"uint8":   "uint8_t u_char uchar_t u_int8_t",
		"uint16":  "uint16_t u_short ushort ushort_t u_int16_t sa_family_t in_port_t",
		"uint32":  "uint32_t u_int uint uint_t u_int32_t uid_t gid_t mode_t socklen_t in_addr_t wint_t",
		"uint64":  "uint64_t u_longlong_t u_int64_t dev_t uintmax_t",
		"uint":    "size_t u_long ulong ulong_t ino_t nlink_t pthread_t rlim_t",
		"uintptr": "uintptr_t",
	} {
		for name := range strings.FieldsSeq(names) {
			named[name] = ctype{goType: goType}
		}
	}
	return named
})
