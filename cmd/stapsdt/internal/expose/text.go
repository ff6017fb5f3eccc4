//go:build linux

package expose

import (
	"fmt"
	"io"

	"github.com/prometheus/common/expfmt"
)

// WriteText writes families in Prometheus's text format. The error says how many series were left out,
// because their names or numbers are not valid.
func WriteText(to io.Writer, families []*Family) error {
	left := 0
	for _, f := range families {
		family, invalid := convert(f)
		left += invalid
		if family == nil {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(to, family); err != nil {
			return err
		}
	}
	if left > 0 {
		return fmt.Errorf("%d series are left out, because their names or numbers are not valid", left)
	}
	return nil
}
