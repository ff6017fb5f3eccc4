//go:build linux

package function

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Place is the kind of the instruction at which a call is seen.
type Place int

// The kinds of instructions.
const (
	// AtEntry is the first instruction. The kernel single-steps it, and it runs twice if the stack
	// has to grow.
	AtEntry Place = iota
	// AtPush is the push after the stack check, which the kernel emulates.
	AtPush
	// AtBranch is the branch of the stack check on arm64, which the kernel simulates. If the branch
	// is taken, the event is not a call.
	AtBranch
	// AtStatement is an instruction with which a statement begins.
	AtStatement
)

// String describes the place for people.
func (p Place) String() string {
	switch p {
	case AtPush:
		return "the push after the stack check"
	case AtBranch:
		return "the branch of the stack check"
	case AtStatement:
		return "the statement"
	}
	return "the entry"
}

// Site is an instruction, with its address in the ELF file and its offset in the file.
type Site struct {
	Address, Offset uint64
}

// Arg is a value that is read at a site.
type Arg struct {
	sdt.Arg
	// Length is the operand of the length of a string or of bytes, or nil. If it is set, the
	// operand of the value is the address of its bytes. InPlace means that the operand is the bytes
	// themselves, in memory.
	Length  *sdt.Operand
	InPlace bool
	// Dynamic means that the operand is the first word of an interface. This word points to the
	// type of the value or, if Methods is set, to a table with the type.
	Dynamic, Methods bool
	// Data is the operand of the second word of an error, or nil. It points to a string if the type
	// is one of Texts, and this string is the result of the method Error.
	Data  *sdt.Operand
	Texts []uint64
	// Ext is the operand of the field ext of a time.Time, or nil. The operand of the value is then
	// that of the field wall.
	Ext *sdt.Operand
	// Constants are the names of values of a defined type of integers, or nil.
	Constants value.Constants
	// Capacity means that the value is the capacity of a slice.
	Capacity bool
	// Alias is the name made from the index of the parameter or result, such as ret0. It is "" if
	// it equals the name, or if the argument is a part of a parameter.
	Alias string
	// Pointer is the operand of a pointer to the struct that holds the value. The other operands
	// are then only a displacement. It is nil for a value that is not reached through a pointer.
	Pointer *sdt.Operand
}

// Function is a function that can be probed.
type Function struct {
	// Name is the name that go tool nm shows, without escapes.
	Name string
	// File and Line are its position in the source.
	File string
	Line int
	// Signature is the signature in the source, such as "(n int) (ret0 error)", or "" if ArgsErr is
	// set.
	Signature string
	// Entry is its address.
	Entry uint64
	// Call is the instruction at which a call is seen, and Place its kind.
	Place Place
	Call  Site
	// Args are read at a call, and Results at a return. If they are unknown, ArgsErr is the reason.
	Args, Results []Arg
	ArgsErr       error
	// Fields and ResultFields are the fields of structs to which Args and Results point.
	Fields, ResultFields []Arg
	// Assembly means that the function was written in assembly, so that its use of registers is
	// unknown.
	Assembly bool
	// Inlined is the number of functions that are known to have inlined it. There may be more,
	// because the compiler does not record every one.
	Inlined int
	// Statement is set if this is not a function, but a statement in one.
	Statement *Statement

	info      gotable.Function
	program   *Program
	described bool
	// returns and returnErr are the results of Returns, or nil.
	returns   []Site
	returnErr error
}

// Returns returns the return instructions, or the reason why there are none. The first call reads
// the code of the function, and fails after the program was closed.
func (f *Function) Returns() ([]Site, error) {
	if f.returns == nil && f.returnErr == nil {
		f.returns, f.returnErr = f.program.returns(&f.info)
	}
	return f.returns, f.returnErr
}

// Program is a Go program.
type Program struct {
	file    *elf.File
	table   *gotable.Table // without functions if forgot is set
	forgot  bool
	version string
	release int // the minor number of the release, such as 26, or 0 if it is unknown
	// separate finds the program's debug file, or is nil.
	separate Separate
	// Source finds the source of variables at lines, or is nil.
	Source Source
	debug  *debugging
	names  map[uint64]string // the names of types, by address
	errors []uint64          // the result of errorTypes, or nil
	found  map[uint64]*Function
	near   stretch
	never  map[uint64]bool // functions that never return, by address, or nil
	lines  map[spec.Pattern]*lineRows
}

// MaxMatches is the maximum number of functions that a pattern may select to be probed.
const MaxMatches = 500

const (
	// maxCode is the size of the largest function whose instructions are read.
	maxCode = 8 << 20
	// maxStart is the size of the instructions among which that of a call is.
	maxStart = 256
	// maxNear is the size of code that is read together.
	maxNear = 64 << 10
)

// The supported releases of Go.
const firstRelease, lastRelease = 22, 27

// Open reads the function table of a program. separate finds its debug file, unless it is nil.
// The error wraps gotable.ErrNoTable if the program was not built by Go.
func Open(r io.ReaderAt, separate Separate) (*Program, error) {
	f, err := elffile.New(r)
	if err != nil {
		return nil, err
	}
	if !gotable.Has(f) {
		return nil, gotable.ErrNoTable
	}
	if abis[f.Machine] == nil {
		return nil, machineError(f.Machine)
	}
	p := &Program{file: f, separate: separate, found: map[uint64]*Function{}}
	if info, err := buildinfo.Read(r); err == nil {
		p.version, p.release = info.GoVersion, Release(info.GoVersion)
	}
	if p.table, err = gotable.New(f); errors.Is(err, gotable.ErrFormat) && p.version != "" {
		err = fmt.Errorf("%w; the program was built by %.64q", err, p.version)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func machineError(m elf.Machine) error {
	return fmt.Errorf("functions are probed on amd64 and arm64 only, but the program is for %v", m)
}

// Runs returns an error unless the program is for a machine.
func (p *Program) Runs(on elf.Machine) error {
	if p.file.Machine != on {
		return machineError(p.file.Machine)
	}
	return nil
}

// maxNames is the maximum number of type names that are kept.
const maxNames = 1 << 14

// NameOf returns the name of the Go type at an address, "nil" for 0, and "?" if there is no type,
// as for types that a program has made at run time. It implements value.Names.
func (p *Program) NameOf(address uint64) string {
	if address == 0 {
		return "nil"
	}
	name, known := p.names[address]
	if known {
		return name
	}
	if p.table == nil {
		return "?"
	}
	name, err := p.table.TypeName(address)
	if err != nil {
		return "?" // and tried again, because the file may be readable later
	}
	if p.names == nil || len(p.names) == maxNames {
		p.names = map[uint64]string{}
	}
	p.names[address] = name
	return name
}

// Forget releases the memory for finding functions, which Find reads again.
func (p *Program) Forget() {
	p.debug, p.found, p.near = nil, map[uint64]*Function{}, stretch{}
	p.never, p.lines = nil, nil
	p.table, p.forgot = p.table.OnlyTypes(), true
}

// remember opens the table of functions again.
func (p *Program) remember() error {
	if !p.forgot {
		return nil
	}
	table, err := gotable.New(p.file)
	if err == nil {
		p.table, p.forgot = table, false
	}
	return err
}

// Close releases everything but the names of types that are known.
func (p *Program) Close() {
	p.Forget()
	p.table, p.file, p.found = nil, nil, nil
}

// Version returns the version of Go that built the program, such as go1.26.8, or "" if it is
// unknown.
func (p *Program) Version() string { return p.version }

// Release returns the minor number of the release that built the program, such as 26, or 0 if it is
// unknown.
func (p *Program) Release() int { return p.release }

// Release returns the minor number of a release, such as 26 for go1.26.8, or 0 if the version is
// unknown or has experiments, which can change anything.
func Release(version string) int {
	minor, ok := strings.CutPrefix(version, "go1.")
	if !ok || strings.ContainsAny(version, " -+") {
		return 0
	}
	if i := strings.IndexFunc(minor, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		minor = minor[:i]
	}
	n, err := strconv.Atoi(minor)
	if err != nil || n < firstRelease || n > lastRelease {
		return 0
	}
	return n
}

// fips is the package that refuses to run if its code was changed.
const fips = "crypto/internal/fips140"

var errFIPS = errors.New("in FIPS mode, the program hashes the code of " + fips + " and ends if a breakpoint has changed it")

// Find returns the functions that a pattern selects. It is an error if there is none, or more than
// most. Describe adds their arguments. Call it once for all of them, because reading the DWARF of a
// package takes the same time for one function as for many.
func (p *Program) Find(pattern spec.Pattern, most int) ([]*Function, error) {
	if err := p.remember(); err != nil {
		return nil, err
	}
	exact, glob := []byte(pattern), pattern.Glob()
	names, err := p.table.Names(func(name []byte) bool {
		return bytes.Equal(name, exact) || glob.Match(name)
	})
	if err != nil {
		return nil, err
	}
	matches, err := p.matches(pattern, names, most)
	if err != nil {
		return nil, err
	}
	inlined, err := p.table.Inlined(names)
	if err != nil {
		return nil, err
	}
	callers := callersOf(inlined)
	if len(matches) == 0 {
		return nil, p.none(pattern, callers)
	}
	var fns []*Function
	for _, m := range matches {
		fn := p.found[m.Entry]
		if fn == nil {
			if fn, err = p.function(m); err != nil {
				return nil, err
			}
			fn.Inlined = len(callers[m.NameAt])
			p.found[m.Entry] = fn
		}
		fns = append(fns, fn)
	}
	return fns, nil
}

// matches returns the function whose name is the pattern or, if there is none, all functions in
// source code whose names match it. It looks for them among those that have the names.
func (p *Program) matches(
	pattern spec.Pattern, names gotable.Names, most int,
) (matches []gotable.Function, err error) {
	equal := map[bool]*gotable.Function{} // the function, by whether it is a wrapper
	refused, number := false, 0
	err = p.table.Functions(p.release, names, func(f gotable.Function) bool {
		switch {
		case f.Name == string(pattern):
			if equal[f.Wrapper] == nil {
				equal[f.Wrapper] = &f
			}
		case f.Wrapper:
		case isFIPS(f.Name):
			refused = true
		default:
			if number++; number <= most {
				matches = append(matches, f)
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, wrapper := range []bool{false, true} {
		if f := equal[wrapper]; f != nil {
			if isFIPS(f.Name) {
				return nil, fmt.Errorf("%s: %w", f.Name, errFIPS)
			}
			return []gotable.Function{*f}, nil
		}
	}
	if number > most {
		var first []string
		for _, m := range matches[:min(8, len(matches))] {
			first = append(first, m.Name)
		}
		return nil, fmt.Errorf("%s matches %w: %d, but at most %d can be selected: %s, …", pattern, ErrMany, number, most, strings.Join(first, ", "))
	}
	if number == 0 && refused {
		return nil, fmt.Errorf("%s: %w", pattern, errFIPS)
	}
	return matches, nil
}

func isFIPS(name string) bool {
	rest, ok := strings.CutPrefix(name, fips)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '.')
}

// callersOf returns the functions that have inlined others, by the names of the latter.
func callersOf(calls []gotable.Inlined) map[uint32][]uint32 {
	callers := map[uint32][]uint32{}
	for _, c := range calls {
		if c.Callee != c.Caller {
			callers[c.Callee] = append(callers[c.Callee], c.Caller)
		}
	}
	return callers
}

// function returns a function with the instruction at which calls are seen.
func (p *Program) function(info gotable.Function) (*Function, error) {
	fn := &Function{
		Name: info.Name, Entry: info.Entry, Assembly: info.Assembly, info: info, program: p,
	}
	fn.File, fn.Line = p.table.Line(&info)
	code, offset, err := p.code(info.Entry, min(info.End, info.Entry+maxStart))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", info.Name, err)
	}
	at, place := p.call(code)
	fn.Place, fn.Call = place, Site{info.Entry + at, offset + at}
	return fn, nil
}

// call returns the offset of the instruction at which a call is seen.
func (p *Program) call(code []byte) (offset uint64, at Place) {
	if p.file.Machine == elf.EM_AARCH64 {
		return callARM64(code)
	}
	return callX86(code)
}

// returns returns the return instructions of a function.
func (p *Program) returns(info *gotable.Function) (all []Site, err error) {
	if info.Assembly {
		return nil, errors.New("it is written in assembly")
	}
	if p.file == nil {
		return nil, fs.ErrClosed
	}
	code, offset, err := p.code(info.Entry, info.End)
	if err != nil {
		return nil, err
	}
	find := returnsX86
	if p.file.Machine == elf.EM_AARCH64 {
		find = returnsARM64
	}
	offsets, err := find(code)
	for _, at := range offsets {
		all = append(all, Site{info.Entry + at, offset + at})
	}
	return all, err
}

// stretch is code that was read together, because functions are read in the order of their
// addresses.
type stretch struct {
	start uint64
	code  []byte
}

// code returns the instructions between two addresses, and their offset in the file. They must be
// in a part of the file that is mapped as executable. They are valid until the next call.
func (p *Program) code(start, end uint64) (code []byte, offset uint64, err error) {
	s := elffile.Segment(p.file, start, elf.PF_X)
	if s == nil {
		return nil, 0, errors.New("its code is not in an executable part of the file")
	}
	at := start - s.Vaddr
	size := min(end-start, s.Filesz-at)
	if size > maxCode {
		return nil, 0, fmt.Errorf("its %d bytes exceed the limit of %d", size, maxCode)
	}
	if start < p.near.start || start+size > p.near.start+uint64(len(p.near.code)) {
		read := make([]byte, min(max(size, maxNear), s.Filesz-at))
		n, err := s.ReadAt(read, int64(at))
		if uint64(n) < size {
			return nil, 0, err
		}
		p.near = stretch{start, read[:n]}
	}
	from := start - p.near.start
	return p.near.code[from : from+size], s.Off + at, nil
}
