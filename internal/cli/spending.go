package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aycoder/aycoder/insight/usage"
)

var usageFlags = []Flag{
	{"all", "conversations of all directories", ""},
	{"days", "only the last days, today included", "n"},
	{"budget", "what a month may cost, of the conversations that are counted", "usd"},
	{"manual", "how long tasks take by hand, such as fix=1h,feature=3h, for a comparison: " + strings.Join(usage.Kinds(), ", ") + ", or the id of a conversation", "times"},
	{"rate", "what an hour of this work costs", "usd"},
	{"csv", "print rows for a spreadsheet", ""},
	{"html", "print a page", ""},
}

// usageCommand does what the arguments of "aycoder usage" say.
func usageCommand(ctx context.Context, k *call) error {
	o, err := k.usageOptions()
	if err != nil {
		return err
	}
	by := usage.By(k.arg(0))
	switch csv, html := k.on["csv"], k.on["html"]; {
	case k.action == "by" && !slices.Contains(usage.Ways(), by):
		return fmt.Errorf("%w: there are no figures by %q", ErrUsage, by)
	case html && k.action == "by":
		return fmt.Errorf("%w: a page has all figures: aycoder usage -html", ErrUsage)
	case csv && (html || k.json):
		return fmt.Errorf("%w: -csv goes without -html and -json", ErrUsage)
	}
	st, err := k.load(&options{})
	if err != nil {
		return err
	}
	work, err := k.spending(ctx, st, k.on["all"])
	if err != nil {
		return err
	}
	k.decisions(work, st)
	r, err := work.Report(o)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	rows := r.Days
	if k.action == "by" {
		rows = work.Between(r.From, time.Time{}).By(by, time.Local)
	}
	switch {
	case k.on["csv"]:
		return k.writeBy(func(w io.Writer) error { return usage.WriteCSV(w, cmp.Or(by, usage.Day), rows) })
	case k.action == "by":
		return printList(k, rows, func(r *usage.Row) string { return r.Label() + "  " + r.Line() }, "")
	}
	return k.printReport(r)
}

// usageOptions reads the flags.
func (k *call) usageOptions() (o usage.Options, err error) {
	wrong := func(flag string) error {
		return fmt.Errorf("%w: -%s %s is not understood; aycoder usage -h tells more", ErrUsage, flag, k.values[flag])
	}
	if s, ok := k.values["days"]; ok {
		if o.Days, err = strconv.Atoi(s); err != nil || o.Days < 1 {
			return o, wrong("days")
		}
	}
	for flag, to := range map[string]*float64{"budget": &o.Budget, "rate": &o.Rate} {
		if s, ok := k.values[flag]; ok {
			if *to, err = strconv.ParseFloat(s, 64); err != nil || !(*to > 0) || math.IsInf(*to, 1) {
				return o, wrong(flag)
			}
		}
	}
	for pair := range strings.SplitSeq(k.values["manual"], ",") {
		if pair == "" {
			continue
		}
		name, text, _ := strings.Cut(pair, "=")
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return o, wrong("manual")
		}
		if o.Manual == nil {
			o.Manual = map[string]time.Duration{}
		}
		o.Manual[name] = d
	}
	if o.Rate > 0 && o.Manual == nil {
		return o, fmt.Errorf("%w: -rate says nothing without -manual", ErrUsage)
	}
	return o, nil
}

// spending reads what was used in the conversations of this directory, or of all. One that cannot be read is left out.
func (a *app) spending(ctx context.Context, st *settings, all bool) (*usage.Work, error) {
	store, err := a.store(st)
	if err != nil {
		return nil, err
	}
	here, err := directory()
	if err != nil {
		return nil, err
	}
	return usage.Collect(ctx, store, listedOf(here, all))
}

// decisions adds what the audit log has, if there is one.
func (k *call) decisions(work *usage.Work, st *settings) {
	name := st.loaded.Config.Session.Audit
	if name == "" {
		return
	}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		defer f.Close()
		err = work.AddAudit(f)
	}
	if err != nil {
		k.tell(fmt.Sprintf("audit log %s: %v", name, err))
	}
}
