//go:build linux

package source

// program is a program that makes a table of lines (DWARF 5, 6.2).
type program struct {
	cursor
	table *lines

	encoding
	step, base, span, opcodes uint64 // base is the two's complement of a negative number
	operands                  []byte // the number of operands of each standard opcode

	begins bool // whether rows are the beginnings of statements at first
	row    row
	first  int // the first row of the sequence
}

// header reads the header, and moves to the first opcode.
func (p *program) header(address, word int) error {
	p.encoding = encoding{version: int(p.uint(2)), address: address, word: word}
	if p.version < 2 || p.version > 5 {
		return errDamaged
	}
	p.table.version = p.version
	if p.version >= 5 {
		p.address = int(p.uint(1))
		p.skip(1) // the size of a segment selector
	}
	length := p.uint(word)
	if p.short || length > uint64(len(p.b)-p.at) || p.address != 4 && p.address != 8 {
		return errDamaged
	}
	start := p.at + int(length)
	p.step = p.uint(1)
	if p.version >= 4 {
		p.skip(1) // the number of operations in an instruction, which is 1 except on VLIW machines
	}
	p.begins = p.uint(1) != 0
	p.base = uint64(int64(int8(p.uint(1))))
	p.span, p.opcodes = p.uint(1), p.uint(1)
	if p.short || p.span == 0 || p.opcodes == 0 {
		return errDamaged
	}
	n := int(p.opcodes) - 1
	if p.skip(uint64(n)); p.short {
		return errDamaged
	}
	p.operands = p.b[p.at-n : p.at]
	if p.version >= 5 {
		p.table.directories, p.table.files = p.files(), p.files()
	} else {
		p.oldFiles()
	}
	if p.short {
		return errDamaged
	}
	p.at = start
	return nil
}

// oldFiles reads the directories and files of DWARF 2 to 4.
func (p *program) oldFiles() {
	name := func() (value, bool) {
		v := value{form: formString, text: p.text()}
		return v, len(v.text) > 0
	}
	for d, more := name(); more; d, more = name() {
		if len(p.table.directories) == maxFiles {
			p.end()
		}
		p.table.directories = append(p.table.directories, file{name: d})
	}
	for f, more := name(); more; f, more = name() {
		if len(p.table.files) == maxFiles {
			p.end()
		}
		p.table.files = append(p.table.files, file{name: f, directory: p.uleb()})
		p.uleb() // the time
		p.uleb() // the size
	}
}

// files reads the directories or the files of DWARF 5.
func (p *program) files() (all []file) {
	const path, directory = 1, 2
	type field struct {
		kind uint64
		form form
		size int
	}
	var fields []field
	for range p.uint(1) {
		kind, f := p.uleb(), form(p.uleb())
		size := p.encoding.size(f)
		if size == 0 || f == formIndirect {
			p.end()
		}
		fields = append(fields, field{kind, f, size})
	}
	n := p.uleb()
	if len(fields) == 0 && n > 0 || n > maxFiles {
		p.end()
	}
	for ; n > 0 && !p.short; n-- {
		var f file
		for _, field := range fields {
			v := p.read(field.form, field.size, p.encoding)
			switch field.kind {
			case path:
				f.name = v
			case directory:
				f.directory = v.n
			}
		}
		all = append(all, f)
	}
	return all
}

// Opcodes.
const (
	opExtended = iota
	opCopy
	opAdvancePC
	opAdvanceLine
	opSetFile
	opSetColumn
	opNegate
	opBasicBlock
	opConstAddPC
	opFixedAdvancePC

	opEndSequence = 1
	opSetAddress  = 2
)

// start begins a sequence.
func (p *program) start() {
	p.row, p.first = row{file: 1, line: 1, begins: p.begins}, len(p.table.rows)
}

// emit adds a row.
func (p *program) emit() {
	rows := p.table.rows
	if n := len(rows); n > p.first && rows[n-1].address == p.row.address {
		// The last row at an address is right. The one before covers no instruction.
		last := rows[n-1]
		rows[n-1] = p.row
		same := last.file == p.row.file && last.line == p.row.line
		rows[n-1].begins = p.row.begins || last.begins && same
		return
	}
	p.table.rows = append(rows, p.row)
}

// run makes the table. The rows before a damage are right.
func (p *program) run(budget *Budget) error {
	err := p.rows(budget)
	p.table.sequences.sort()
	if err == errDamaged {
		err = nil
	}
	return err
}

// rows runs the program until its end or an error.
func (p *program) rows(budget *Budget) error {
	for p.start(); p.at < len(p.b); {
		if len(p.table.rows) == maxRows {
			return errDamaged
		}
		if err := budget.spend(1); err != nil {
			return err
		}
		op := p.uint(1)
		if op >= p.opcodes {
			op -= p.opcodes
			p.row.address += op / p.span * p.step
			p.row.line += uint32(p.base + op%p.span)
			p.emit()
			continue
		}
		p.standard(op)
		if p.short {
			return errDamaged
		}
	}
	return nil
}

func (p *program) standard(op uint64) {
	switch op {
	case opExtended:
		p.extended()
	case opCopy:
		p.emit()
	case opAdvancePC:
		p.row.address += p.uleb() * p.step
	case opAdvanceLine:
		p.row.line += uint32(p.sleb())
	case opNegate:
		p.row.begins = !p.row.begins
	case opSetFile:
		p.row.file = uint32(p.uleb())
	case opConstAddPC:
		p.row.address += (255 - p.opcodes) / p.span * p.step
	case opFixedAdvancePC:
		p.row.address += p.uint(2)
	default:
		for range p.operands[op-1] {
			p.uleb()
		}
	}
}

func (p *program) extended() {
	n := p.uleb()
	if n == 0 || n > uint64(len(p.b)-p.at) {
		p.end()
		return
	}
	next := p.at + int(n)
	switch p.uint(1) {
	case opEndSequence:
		p.table.add(p.first, p.row.address)
		p.start()
	case opSetAddress:
		p.row.address = p.uint(p.address)
	}
	if !p.short {
		p.at = next
	}
}
