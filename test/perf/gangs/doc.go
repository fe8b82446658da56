// Package gangs creates gangs, sees how long a scheduler takes to place them, and deletes them again.
package gangs
