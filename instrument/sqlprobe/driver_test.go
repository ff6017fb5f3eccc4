package sqlprobe

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// The drivers of the tests: each logs what database/sql calls, and has another set of
// optional methods.

// calls is what was called, and what is to be done at each call.
type calls struct {
	list []string
	tick func()
}

func (c *calls) add(format string, args ...any) {
	c.list = append(c.list, fmt.Sprintf(format, args...))
	if c.tick != nil {
		c.tick()
	}
}

// testConnector connects with a driver of the tests.
type testConnector struct {
	calls *calls
	make  func(*bareConn) driver.Conn
}

func (c testConnector) Connect(context.Context) (driver.Conn, error) {
	c.calls.add("connect")
	if c.make == nil {
		return nil, errBroken
	}
	return c.make(&bareConn{c.calls}), nil
}

func (c testConnector) Driver() driver.Driver { return testDriver{c} }

type testDriver struct{ c testConnector }

func (d testDriver) Open(string) (driver.Conn, error) { return d.c.Connect(context.Background()) }

var errBroken = errors.New("broken")

// bareConn has no optional method.
type bareConn struct{ *calls }

func (c *bareConn) Prepare(text string) (driver.Stmt, error) {
	c.add("prepare %s", text)
	if text == "unprepared" {
		return nil, errBroken
	}
	return &bareStmt{c.calls, text}, nil
}

func (c *bareConn) Close() error { c.add("close"); return nil }

func (c *bareConn) Begin() (driver.Tx, error) { c.add("begin"); return bareTx{c.calls}, nil }

type bareTx struct{ *calls }

func (t bareTx) Commit() error   { t.add("commit"); return nil }
func (t bareTx) Rollback() error { t.add("rollback"); return nil }

type bareStmt struct {
	*calls
	text string
}

func (s *bareStmt) Close() error { s.add("close %s", s.text); return nil }

func (s *bareStmt) NumInput() int {
	if s.text == "two" {
		return 2
	}
	return -1
}

func (s *bareStmt) Exec(args []driver.Value) (driver.Result, error) {
	s.add("stmt exec %s %v", s.text, args)
	return execute(s.text)
}

func (s *bareStmt) Query(args []driver.Value) (driver.Rows, error) {
	s.add("stmt query %s %v", s.text, args)
	return ask(s.calls, s.text)
}

func execute(text string) (driver.Result, error) {
	switch text {
	case "fail":
		return nil, errBroken
	case "unknown":
		return driver.ResultNoRows, nil
	}
	return driver.RowsAffected(3), nil
}

func ask(c *calls, text string) (driver.Rows, error) {
	switch text {
	case "fail":
		return nil, errBroken
	case "sets":
		return &fullRows{bareRows{c, text, 0}, 1}, nil
	}
	return &bareRows{c, text, 0}, nil
}

// bareRows are two rows, after which there is an error if the query is "cut", and
// more if it is "endless".
type bareRows struct {
	*calls
	text string
	read int
}

func (r *bareRows) Columns() []string { return []string{"a"} }
func (r *bareRows) Close() error      { r.add("close rows"); return nil }

func (r *bareRows) Next(to []driver.Value) error {
	if r.read == 2 && r.text != "endless" {
		if r.text == "cut" {
			return errBroken
		}
		return io.EOF
	}
	r.read++
	to[0] = int64(r.read)
	return nil
}

// fullRows have all optional methods.
type fullRows struct {
	bareRows
	sets int
}

func (r *fullRows) HasNextResultSet() bool { return r.sets > 0 }

func (r *fullRows) NextResultSet() error {
	if r.sets == 0 {
		return io.EOF
	}
	r.sets--
	r.read = 0
	return nil
}

func (r *fullRows) ColumnTypeScanType(int) reflect.Type               { return reflect.TypeFor[int8]() }
func (r *fullRows) ColumnTypeDatabaseTypeName(int) string             { return "TINY" }
func (r *fullRows) ColumnTypeLength(int) (int64, bool)                { return 7, true }
func (r *fullRows) ColumnTypeNullable(int) (nullable, ok bool)        { return true, true }
func (r *fullRows) ColumnTypePrecisionScale(int) (p, s int64, _ bool) { return 5, 2, true }

// legacyConn has the optional methods from before contexts.
type legacyConn struct{ *bareConn }

func (c legacyConn) Exec(text string, args []driver.Value) (driver.Result, error) {
	c.add("exec %s %v", text, args)
	return execute(text)
}

func (c legacyConn) Query(text string, args []driver.Value) (driver.Rows, error) {
	c.add("query %s %v", text, args)
	return ask(c.calls, text)
}

// converterConn has statements that convert their arguments.
type converterConn struct{ *bareConn }

func (c converterConn) Prepare(text string) (driver.Stmt, error) {
	s, err := c.bareConn.Prepare(text)
	if err != nil {
		return nil, err
	}
	return converterStmt{s.(*bareStmt)}, nil
}

type converterStmt struct{ *bareStmt }

func (converterStmt) ColumnConverter(i int) driver.ValueConverter { return converter(i) }

type converter int

func (c converter) ConvertValue(v any) (driver.Value, error) {
	return fmt.Sprintf("column %d: %v", c, v), nil
}

// fullConn has all optional methods.
type fullConn struct{ *bareConn }

func (c fullConn) Ping(context.Context) error { c.add("ping"); return errBroken }

func (c fullConn) ExecContext(_ context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	c.add("exec context %s %v", text, args)
	return execute(text)
}

func (c fullConn) QueryContext(_ context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	c.add("query context %s %v", text, args)
	return ask(c.calls, text)
}

func (c fullConn) PrepareContext(_ context.Context, text string) (driver.Stmt, error) {
	c.add("prepare context")
	s, err := c.Prepare(text)
	if err != nil {
		return nil, err
	}
	return fullStmt{s.(*bareStmt)}, nil
}

func (c fullConn) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.add("begin context %v", opts)
	return c.Begin()
}

func (c fullConn) ResetSession(context.Context) error { c.add("reset"); return nil }
func (c fullConn) IsValid() bool                      { c.add("valid"); return true }

func (c fullConn) CheckNamedValue(v *driver.NamedValue) error {
	c.add("check %v", v.Name)
	if text, ok := v.Value.(object); ok {
		v.Value = "object " + text.name
		return nil
	}
	return driver.ErrSkip
}

// object is something that only some drivers take as an argument.
type object struct{ name string }

type fullStmt struct{ *bareStmt }

func (s fullStmt) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.add("stmt exec context %s %v", s.text, args)
	return execute(s.text)
}

func (s fullStmt) QueryContext(_ context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.add("stmt query context %s %v", s.text, args)
	return ask(s.calls, s.text)
}

// checkedConn has statements that check their arguments, and connections that do not.
type checkedConn struct{ *bareConn }

func (c checkedConn) Prepare(text string) (driver.Stmt, error) {
	s, err := c.bareConn.Prepare(text)
	if err != nil {
		return nil, err
	}
	return checkedStmt{s.(*bareStmt)}, nil
}

type checkedStmt struct{ *bareStmt }

func (s checkedStmt) CheckNamedValue(v *driver.NamedValue) error {
	v.Value = fmt.Sprintf("checked %v", v.Value)
	return nil
}

func (s checkedStmt) ColumnConverter(i int) driver.ValueConverter { return converter(i) }

// skippingConn would rather have everything prepared.
type skippingConn struct{ fullConn }

func (c skippingConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	c.add("skip")
	return nil, driver.ErrSkip
}

func (c skippingConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	c.add("skip")
	return nil, driver.ErrSkip
}

type resettableConn struct{ *bareConn }

func (c resettableConn) ResetSession(context.Context) error { c.add("reset"); return nil }

type validConn struct{ *bareConn }

func (c validConn) IsValid() bool { c.add("valid"); return true }

// drivers are the connections of all drivers by their names.
var drivers = map[string]func(*bareConn) driver.Conn{
	"bare":       func(c *bareConn) driver.Conn { return c },
	"legacy":     func(c *bareConn) driver.Conn { return legacyConn{c} },
	"converter":  func(c *bareConn) driver.Conn { return converterConn{c} },
	"checked":    func(c *bareConn) driver.Conn { return checkedConn{c} },
	"full":       func(c *bareConn) driver.Conn { return fullConn{c} },
	"skipping":   func(c *bareConn) driver.Conn { return skippingConn{fullConn{c}} },
	"resettable": func(c *bareConn) driver.Conn { return resettableConn{c} },
	"valid":      func(c *bareConn) driver.Conn { return validConn{c} },
}
