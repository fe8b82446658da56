package kubectl

import (
	"fmt"
	"strings"

	devicefacts "github.com/quartermaster-dra/quartermaster/internal/kubectl/facts"
	"github.com/quartermaster-dra/quartermaster/internal/kubectl/screen"
)

// problemsShown bounds the problems of each kind that are named without -o wide.
const problemsShown = 5

// printProblems prints the problems, followed by a blank line.
func (o *options) printProblems(p *devicefacts.Problems) error {
	if p.Len() == 0 {
		return nil
	}
	section(o, "Devices held twice:", p.Twice, func(c devicefacts.Contested) string {
		return fmt.Sprintf("%s by %s", c.DeviceID, strings.Join(holdersInWords(c.Holders), " and "))
	})
	section(o, "More is used than there is:", p.Overdrawn, func(d devicefacts.Overdraft) string {
		of := d.Driver + "/" + d.Pool
		if d.Device != "" {
			of += "/" + d.Device
		}
		what := d.Room.Kind + " " + joinedBy("/", d.Room.Set, d.Room.Name)
		used := d.Room.InUse()
		return fmt.Sprintf("%s of %s: %s of %s in use, by %s", what, of, used.String(), d.Room.Published.String(), few(d.Claims))
	})
	section(o, "Allocated, but not published:", p.Unpublished, func(c devicefacts.Contested) string {
		text := fmt.Sprintf("%s, held by %s", c.DeviceID, strings.Join(holdersInWords(c.Holders), " and "))
		if c.PoolState != "" {
			text += "; the pool is " + c.PoolState
		}
		return text
	})
	section(o, "Pools whose devices cannot be allocated:", p.Pools, func(pool devicefacts.Pool) string {
		return fmt.Sprintf("%s/%s is %s: %s", pool.Driver, pool.Name, pool.State, pool.Reason)
	})
	section(o, "Claims allocated that no pod uses:", p.Unused, func(c devicefacts.Claim) string {
		text := c.Key() + ", " + plural(len(c.Devices), "device")
		if !c.Since.IsZero() {
			text += ", for " + o.age(c.Since)
		}
		if n := len(c.Consumers); n > 0 {
			text += "; reserved for " + consumerInWords(&c.Consumers[0])
			if n > 1 {
				text += fmt.Sprintf(" and %d more", n-1)
			}
		}
		return text
	})
	return nil
}

func section[T any](o *options, title string, all []T, line func(T) string) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(o.Out, o.screen.Paint(screen.Warn, title))
	for i, one := range all {
		if i == problemsShown && !o.wide() {
			o.say("  … and %d more; -o wide shows each", len(all)-i)
			break
		}
		o.say("  %s", line(one))
	}
	o.say("")
}

func holdersInWords(holders []devicefacts.Holder) []string {
	var texts []string
	for i := range holders {
		text := holders[i].Claim
		switch {
		case holders[i].AdminAccess:
			text += " (admin access)"
		case holders[i].ShareID != "":
			text += " (a share)"
		}
		texts = append(texts, text)
	}
	return texts
}

// few names the first of many names.
func few(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
