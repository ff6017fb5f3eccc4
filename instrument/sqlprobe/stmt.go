package sqlprobe

import (
	"context"
	"database/sql/driver"
	"errors"
)

// stmt reports the executions of a prepared statement.
type stmt struct {
	driver.Stmt
	conn  *conn
	text  string
	begun *query // the first execution, if it began before the statement was prepared
}

// newStmt returns a statement that has ColumnConverter if the driver's does. It always
// has all other optional methods; if the driver's statement lacks one, it does the same
// as database/sql.
func newStmt(s driver.Stmt, c *conn, text string, begun *query) driver.Stmt {
	mine := &stmt{s, c, text, begun}
	//lint:ignore SA1019 deprecated, but there
	if to, ok := s.(driver.ColumnConverter); ok {
		return struct {
			*stmt
			columnConverter
		}{mine, columnConverter{to}}
	}
	return mine
}

// columnConverter has the optional method in a type of another name: as a field, the
// interface would hide its method.
type columnConverter struct {
	to driver.ColumnConverter //lint:ignore SA1019 deprecated, but there
}

func (c columnConverter) ColumnConverter(i int) driver.ValueConverter {
	return c.to.ColumnConverter(i)
}

// begin reports the start of an execution, unless it has been reported already.
func (s *stmt) begin(ctx context.Context) (context.Context, *query) {
	if q := s.begun; q != nil {
		s.begun = nil
		return q.ctx, q
	}
	return s.conn.probes.begin(ctx, s.text)
}

// errNotExecuted ends a query whose statement was prepared and then closed.
var errNotExecuted = errors.New("not executed")

func (s *stmt) Close() error {
	err := s.Stmt.Close()
	s.begun.end(-1, errNotExecuted)
	s.begun = nil
	return err
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	ctx, q := s.begin(ctx)
	if to, ok := s.Stmt.(driver.StmtExecContext); ok {
		return q.result(to.ExecContext(ctx, args))
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return q.result(nil, err)
	}
	return q.result(s.Stmt.Exec(values)) //lint:ignore SA1019 deprecated, but all that it has
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	ctx, q := s.begin(ctx)
	if to, ok := s.Stmt.(driver.StmtQueryContext); ok {
		return q.rows(to.QueryContext(ctx, args))
	}
	values, err := plainValues(ctx, args)
	if err != nil {
		return q.rows(nil, err)
	}
	return q.rows(s.Stmt.Query(values)) //lint:ignore SA1019 deprecated, but all that it has
}

// CheckNamedValue calls the method of the driver's statement, or else of its connection.
func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if to, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return to.CheckNamedValue(v)
	}
	return s.conn.CheckNamedValue(v)
}

// plainValues does what database/sql does before it calls a method that has no context.
func plainValues(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, arg := range args {
		if arg.Name != "" {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		values[i] = arg.Value
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
		return values, nil
	}
}
