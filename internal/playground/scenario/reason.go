package scenario

// Cause is why a pod cannot be scheduled, apart from the words that a
// scheduler uses for it.
type Cause string

// Reason is what the text on a waiting pod has to tell.
type Reason struct {
	Cause Cause
	// Claim is the name of the claim at fault, Entry what the pod calls it if it was made
	// from a template. Both empty: the text need not name it.
	Claim, Entry string
	// Request is the name of the request at fault; empty: need not be named.
	Request string
	// Mentions are further parts of the text, whatever the scheduler.
	Mentions []string
}

// Dialect is how one scheduler words its reasons.
type Dialect struct {
	// Name is how users ask for the dialect.
	Name string
	// NamesClaim and NamesRequest say whether the texts name claim and request.
	NamesClaim, NamesRequest bool
	// Texts are, for each cause, parts that its text contains. A cause without
	// an entry only has to have some text with the other parts.
	Texts map[Cause][]string
}

// parts returns what the text for a reason has to contain.
func (d Dialect) parts(namespace string, reason Reason) []string {
	parts := append([]string{}, d.Texts[reason.Cause]...)
	if d.NamesClaim && reason.Claim != "" {
		parts = append(parts, "claim "+namespace+"/"+reason.Claim)
	}
	if d.NamesClaim && reason.Entry != "" {
		parts = append(parts, "claim "+reason.Entry+" of the pod")
	}
	if d.NamesRequest && reason.Request != "" {
		parts = append(parts, "request "+reason.Request)
	}
	return append(parts, reason.Mentions...)
}
