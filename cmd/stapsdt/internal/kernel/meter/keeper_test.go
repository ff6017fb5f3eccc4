//go:build linux

package meter

import (
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// owner has some accounts, and notes the verdicts.
type owner struct {
	accounts []*Account
	obeyed   []*Account
}

func (o *owner) Meters(*bpf.Probe) bool        { return true }
func (o *owner) Account(*target.File) *Account { return nil }
func (o *owner) Accounts() []*Account          { return o.accounts }

func (o *owner) Obey(a *Account, _ Verdict) error {
	o.obeyed = append(o.obeyed, a)
	return nil
}

// over judges that all units are too expensive.
type over struct{}

func (over) Check(_ time.Time, _ time.Duration, units []*Unit) Verdict { return Verdict{Over: units} }

// TestKeeper: an account that cannot be read does not keep the others within their budgets from being
// judged, and what is judged is carried out.
func TestKeeper(t *testing.T) {
	testenv.NeedsRoot(t)
	account := func() *Account {
		m := New(&bpf.Env{}, nil, 1)
		_, err := m.Sections(&bpf.Probe{Provider: "app", Name: "a"}, nil)
		require.NoError(t, err)
		t.Cleanup(func() { m.Close() })
		return &Account{Meter: m, Judge: over{}}
	}
	o := &owner{}
	k := &Keeper{Owner: o, Interval: time.Hour}
	next, err := k.Check(true)
	require.NoError(t, err)
	require.Equal(t, query.Rest, next)

	o.accounts = []*Account{account(), account(), account()}
	require.NoError(t, o.accounts[1].Close())
	next, err = k.Check(true)
	require.Error(t, err)
	require.Equal(t, time.Hour, next)
	require.ElementsMatch(t, []*Account{o.accounts[0], o.accounts[2]}, o.obeyed)

	next, err = k.Check(true) // which is not due
	require.NoError(t, err)
	require.LessOrEqual(t, next, time.Hour)
	require.Len(t, o.obeyed, 2)
}
