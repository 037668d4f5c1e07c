package contract

// flaws are the promises that a chapter breaks on purpose: chapter → promise → everything that is found. They have to
// show up on both back ends, and nothing else may.
var flaws = map[string]map[string][]string{
	"01": {
		// Key and TTL are two commands, so whatever gets in between leaves a key for ever.
		"A1_reply_lost_is_not_taken":        {`TryLock answers "taken", and the key is its own`, "the key stays for ever"},
		"A1_every_reply_lost_is_an_error":   {"the key stays for ever"},
		"A1_reply_lost_of_the_last_attempt": {"the key stays for ever"},
		"A2_failed_acquire_is_taken_back":   {"the key stays for ever"},
		"A2_late_request_leaves_one_ttl":    {"the error does not say that the key may stay", "the key stays for ever"},
		"A3_hung_redis_is_an_error":         {"the key stays for ever"},
		"A3_deadline_is_kept":               {"the key stays for ever"},
		"A6_crash_leaves_one_ttl":           {"the key stays for ever"},

		// SETNX only says that there is something.
		"A9_waiter_enters_after_expiry": {"a waiter is late after an expiry"},
		"A11_key_of_another_type":       {`TryLock answers ["taken"] and not ["another error"]`},

		// Every key looks the same, and DEL deletes whatever it finds.
		"R1_stale_unlock_spares_the_next_holder": {
			`A's Unlock answers ["success"] and not ["not held"]`, "another's key is touched",
			`B's Unlock answers ["not held"] and not ["success"]`,
		},
		"R2_unlock_held_up_spares_the_next_holder": {`A's Unlock answers ["success"] and not ["not held"]`, "another's key is touched"},
		"R4_stolen_is_one_round_trip":              {`Unlock answers ["success"] and not ["not held"]`, "another's key is touched"},
		"R4_expired_and_stolen_differ":             {"expired and stolen are one error"},
		"R4_reply_lost_is_not_expired":             {`Unlock answers ["not held"] and not ["success"]`},
		"R4_every_reply_lost_can_be_repeated":      {`the second Unlock answers ["not held"] and not ["success"]`},
		"R5_fresh_token_per_acquisition":           {"the token is not 128 random bits", "two acquisitions have one token"},
		"R5_old_handle_spares_the_new_lock": {
			`the first handle's Unlock answers ["success"] and not ["not held"]`, "another's key is touched",
			`the second handle's Unlock answers ["not held"] and not ["success"]`,
		},
		"R6_second_unlock": {
			"the third Unlock frees something", "another's key is touched",
			`B's Unlock answers ["not held"] and not ["success"]`,
		},
	},
	"02": {
		// A request that is sent twice counts twice, and a failed attempt is not taken back.
		"A1_reply_lost_is_not_taken":        {`TryLock answers "taken", and the key is its own`, "the key stays"},
		"A1_every_reply_lost_is_an_error":   {"the key stays"},
		"A1_reply_lost_of_the_last_attempt": {"the key stays"},
		"A2_failed_acquire_is_taken_back":   {"the key stays"},
		"A2_late_request_leaves_one_ttl":    {"the error does not say that the key may stay"},

		// SET NX only says that there is something.
		"A9_waiter_enters_after_expiry": {"a waiter is late after an expiry"},
		"A11_key_of_another_type":       {`TryLock answers ["taken"] and not ["another error"]`},

		// Between the look and the DEL the key can become another's. A DEL that is sent again finds nothing.
		"R2_unlock_held_up_spares_the_next_holder": {
			`A's Unlock answers ["success"] and not ["not held, stolen"]`, "another's key is touched",
		},
		"R4_reply_lost_is_not_expired":        {`Unlock answers ["not held, expired"] and not ["success"]`},
		"R4_every_reply_lost_can_be_repeated": {`the second Unlock answers ["not held, expired"] and not ["success"]`},
	},
	"07": {
		// No flaw but a price: the token needs a second round.
		"R7_two_commands": {"TryLock and Unlock are not one command each"},
	},
}
