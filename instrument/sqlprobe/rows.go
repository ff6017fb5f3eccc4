package sqlprobe

import (
	"database/sql/driver"
	"io"
	"reflect"
)

// rows holds the rows of a query that is reported, and counts those that are read. It
// forwards the calls of optional methods to the driver's rows; if these lack a method, it
// answers as database/sql would. For the exceptions see newRows.
type rows struct {
	driver.Rows
	query *query // nil after Close
	read  int64
	err   error
}

// newRows returns rows that have NextResultSet if the driver's do, and NextRow and ScanColumn.
// If rows lack the first, database/sql closes them when the last row has been read. If they
// have the others, it does not call Next.
func newRows(r driver.Rows, q *query) driver.Rows {
	mine := &rows{Rows: r, query: q}
	if scanned := mine.scanned(); scanned != nil {
		return scanned
	}
	if to, ok := r.(driver.RowsNextResultSet); ok {
		return struct {
			*rows
			resultSets
		}{mine, resultSets{mine, to}}
	}
	return mine
}

func (r *rows) Next(to []driver.Value) error {
	return r.advanced(r.Rows.Next(to))
}

// advanced notes the result of a call that went to the next row.
func (r *rows) advanced(err error) error {
	r.note(err)
	if err == nil {
		r.read++
	}
	return err
}

// Close reports once that the query has ended. The program may keep the rows longer than that,
// but they keep nothing of the query.
func (r *rows) Close() error {
	err := r.Rows.Close()
	r.note(err)
	r.query.end(r.read, r.err)
	r.query, r.err = nil, nil
	return err
}

// note keeps the first error. The end of the rows is not an error.
func (r *rows) note(err error) {
	if err != io.EOF && r.err == nil {
		r.err = err
	}
}

// resultSets has the methods of rows that may be followed by others.
type resultSets struct {
	r  *rows
	to driver.RowsNextResultSet
}

func (r resultSets) HasNextResultSet() bool { return r.to.HasNextResultSet() }

func (r resultSets) NextResultSet() error {
	err := r.to.NextResultSet()
	r.r.note(err)
	return err
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if to, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return to.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if to, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return to.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	if to, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return to.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if to, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return to.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if to, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return to.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
