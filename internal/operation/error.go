package operation

import "fmt"

// ErrorText returns the text of an error, or "" for nil. If Error returns "", or panics, as it may
// for a nil pointer, ErrorText returns the name of the error's type, because the program must not
// notice.
func ErrorText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if recover() != nil || text == "" {
			text = fmt.Sprintf("%T", err)
		}
	}()
	return err.Error()
}
