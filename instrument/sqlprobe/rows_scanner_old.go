//go:build !go1.27

package sqlprobe

import "database/sql/driver"

// scanned returns nil: before Go 1.27, no rows scan their columns themselves.
func (r *rows) scanned() driver.Rows { return nil }
