package scenario

// Cause is the cause that keeps a pod from being scheduled, independent of a scheduler's wording.
type Cause string

// Reason is the expected content of the message on a waiting pod.
type Reason struct {
	Cause Cause
	// Claim is the name of the claim at fault, and Entry the pod's reference to it if it comes from a template. If
	// both are empty, the text need not name it.
	Claim, Entry string
	// Request is the name of the request at fault; empty if the text need not name it.
	Request string
	// Mentions are further parts of the text, whatever the scheduler.
	Mentions []string
	// Quotes are parts of the text in the words of Quartermaster.
	Quotes []string
}

// Dialect is one scheduler's wording of its reasons.
type Dialect struct {
	// Name is the name by which users select the dialect.
	Name string
	// NamesClaim and NamesRequest say whether the texts name claim and request.
	NamesClaim, NamesRequest bool
	// Quotable says whether quotes are in the words of this dialect.
	Quotable bool
	// Texts are, for each cause, parts that its text contains. For a cause without an entry, any text with the other
	// parts is enough.
	Texts map[Cause][]string
}

// parts returns the required parts of the text for a reason.
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
	if d.Quotable {
		parts = append(parts, reason.Quotes...)
	}
	return append(parts, reason.Mentions...)
}
