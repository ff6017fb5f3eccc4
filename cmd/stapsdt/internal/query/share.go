package query

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseShare parses a part in percent.
func ParseShare(text string) (float64, error) {
	number, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || !(percent > 0 && percent <= 100) {
		return 0, fmt.Errorf("takes more than 0%% and at most 100%%, such as 1%%, not %q", text)
	}
	return percent / 100, nil
}
