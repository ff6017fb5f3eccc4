// Package remote watches the probes of a program through its debugprobe handler. It needs
// neither the kernel nor rights, and works on every system.
package remote

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Address is the address of a debugprobe handler.
type Address struct {
	url url.URL
	// socket is the path of a Unix domain socket, or "".
	socket string
}

// defaultPath is the path on which the documentation mounts the handler.
const defaultPath = "/debug/probes/"

// ParseAddress parses http://HOST/PATH/, https://HOST/PATH/ or http://unix:SOCKET:/PATH/. The
// host may follow USER:PASSWORD@, and the last slash of the path is optional. The default path
// is /debug/probes/.
func ParseAddress(text string) (*Address, error) {
	a := &Address{}
	rest, isSocket := strings.CutPrefix(text, "http://unix:")
	if isSocket {
		socket, path, _ := strings.Cut(rest, ":")
		if !strings.HasPrefix(socket, "/") {
			return nil, fmt.Errorf("%q is not http://unix:SOCKET:/PATH/, where SOCKET is an absolute path", text)
		}
		a.socket, text = socket, "http://localhost"+path
	}
	u, err := url.Parse(text)
	if err != nil {
		// the message omits the text, which may contain a password
		return nil, errors.New("the address is not a URL")
	}
	switch {
	case u.Host == "":
		return nil, fmt.Errorf("%q has no host", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q has a query: use SPEC, -w, -n and -d instead", u.Redacted())
	}
	a.url = url.URL{
		Scheme: u.Scheme, User: u.User, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/") + "/",
	}
	if a.url.Path == "/" {
		a.url.Path = defaultPath
	}
	return a, nil
}

// String returns the address without the password.
func (a *Address) String() string {
	if a.socket != "" {
		return "http://unix:" + a.socket + ":" + a.url.Path
	}
	return a.url.Redacted()
}

// at returns the URL of a resource of the handler.
func (a *Address) at(name string, query url.Values) string {
	u := a.url
	u.Path += name
	u.RawQuery = query.Encode()
	return u.String()
}
