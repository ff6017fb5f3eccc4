//go:build go1.27

package sqlprobe

import "database/sql/driver"

// scanned returns rows that scan their columns themselves, or nil if the driver's do not.
func (r *rows) scanned() driver.Rows {
	to, ok := r.Rows.(driver.RowsColumnScanner)
	if !ok {
		return nil
	}
	if sets, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return struct {
			*rows
			columnScanner
			resultSets
		}{r, columnScanner{r, to}, resultSets{r, sets}}
	}
	return struct {
		*rows
		columnScanner
	}{r, columnScanner{r, to}}
}

// columnScanner has the methods of rows that scan their columns themselves.
type columnScanner struct {
	r  *rows
	to driver.RowsColumnScanner
}

func (c columnScanner) NextRow() error { return c.r.advanced(c.to.NextRow()) }

func (c columnScanner) ScanColumn(ctx driver.ScanContext, i int, to any) error {
	return c.to.ScanColumn(ctx, i, to)
}
