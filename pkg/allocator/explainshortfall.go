package allocator

import (
	"cmp"
	"slices"
	"strings"
)

// shortfalls has a line for each capacity or counter of which too little is left.
func (w *textWriter) shortfalls(o *Obstacle) {
	list := byCounter(o.Details)
	for i := range list {
		if i == listedAtMost {
			w.line(4, "%d more", len(list)-listedAtMost)
			return
		}
		if s := list[i].Shortfall; s != nil {
			w.line(4, "%s: %s needs %s%s, %s left, %s short", list[i].text(o.Devices), s.Device, s.Needed.String(),
				list[i].of(), s.Left.String(), s.By.String())
		}
	}
}

// counterDetail is a detail together with the set that its counter is from, "" if it
// is about something else.
type counterDetail struct {
	Detail
	set string
}

// of is the set from which the device draws.
func (d *counterDetail) of() string {
	if d.set == "" {
		return ""
	}
	return " of " + d.set
}

// byCounter merges counters of the same name, of which each device often has its own
// set. The one that lacks the least stands for all.
func byCounter(all []Detail) []counterDetail {
	var list []counterDetail
	for _, detail := range all {
		path := strings.Split(detail.Name, "/")
		if last := len(path) - 1; last >= 3 { // A capacity has no more than a domain and a name.
			one := counterDetail{detail, path[last-1]}
			one.Name = path[last]
			list = mergeCounter(list, one)
		} else {
			list = append(list, counterDetail{Detail: detail})
		}
	}
	slices.SortStableFunc(list, func(a, b counterDetail) int { return cmp.Compare(b.Devices, a.Devices) })
	return list
}

func mergeCounter(list []counterDetail, one counterDetail) []counterDetail {
	for i := range list {
		if known := &list[i]; known.set != "" && known.Name == one.Name {
			one.Devices += known.Devices
			if one.Shortfall.By.Cmp(known.Shortfall.By) >= 0 {
				one.Shortfall, one.set = known.Shortfall, known.set
			}
			*known = one
			return list
		}
	}
	return append(list, one)
}
