package sqlprobe

import (
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
)

// rows are those of a query that is reported. They count what is read, and pass on
// what a driver may leave out.
type rows struct {
	driver.Rows
	query *query
	read  int64
	err   error
}

func (r *rows) Next(to []driver.Value) error {
	err := r.Rows.Next(to)
	r.note(err)
	if err == nil {
		r.read++
	}
	return err
}

// Close reports that the query is done, once.
func (r *rows) Close() error {
	err := r.Rows.Close()
	r.note(err)
	r.query.end(r.read, r.err)
	r.query = nil
	return err
}

// note keeps the first error. That there are no more rows is none.
func (r *rows) note(err error) {
	if r.err == nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
}

func (r *rows) HasNextResultSet() bool {
	to, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && to.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	if to, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return to.NextResultSet()
	}
	return io.EOF
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
