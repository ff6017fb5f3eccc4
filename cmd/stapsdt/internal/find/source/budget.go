//go:build linux

package source

import "errors"

const (
	// maxWork is the number of bytes that are read or decoded.
	maxWork = 512 << 20
	// maxHeld is the maximum size of the contents of compressed sections and the lists of units,
	// which stay in memory.
	maxHeld = 64 << 20
	// maxKept is the maximum size of decoded data that are kept. A unit needs as much again, or
	// twice as much, while it is decoded.
	maxKept = 32 << 20
)

var (
	errBudget  = errors.New("there is more DWARF than may be read")
	errDamaged = errors.New("the DWARF is damaged")
)

// Budget limits the bytes that the tables of several files read and keep together. It must be used
// by one goroutine only.
type Budget struct {
	work, held, kept int64
	// forget drops the decoded data of each table that keeps some.
	forget map[*Table]bool
}

// NewBudget returns an unused Budget.
func NewBudget() *Budget {
	return &Budget{work: maxWork, held: maxHeld, kept: maxKept, forget: map[*Table]bool{}}
}

// NewBudgetFor returns an unused Budget for a program of which other sections are held: those that
// are compressed, and the lists of units, take at most held bytes.
func NewBudgetFor(held int64) *Budget {
	b := NewBudget()
	b.held = held
	return b
}

// spend counts work.
func (b *Budget) spend(n int) error {
	if b.work -= int64(n); b.work < 0 {
		b.work = 0
		return errBudget
	}
	return nil
}

// hold counts memory that a table keeps until its end.
func (b *Budget) hold(n int) error {
	if b.held < int64(n) {
		return errBudget
	}
	b.held -= int64(n)
	return nil
}

// keep counts memory that a table keeps. If there is too much, all tables drop theirs.
func (b *Budget) keep(t *Table, n int) {
	if b.kept < int64(n) {
		for other := range b.forget {
			clear(other.codes)
			clear(other.abbrevs)
		}
		clear(b.forget)
		b.kept = maxKept
	}
	b.kept -= int64(n)
	b.forget[t] = true
}
