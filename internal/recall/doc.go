// Package recall remembers what was found out about values that never change, such as
// which devices of a slice match an expression. All that a Memory remembers has one bound
// in bytes, because users choose the questions and can ask any number of them.
//
// What was found about one question for many subjects is on one Sheet. Sheets are
// forgotten as a whole, the one first that was not used for longest. Nothing that is
// forgotten is lost: it can be found out again.
package recall
